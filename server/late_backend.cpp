#include "server/late_backend.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <utility>

namespace paceline::server {

void late_backend::note(const load_progress& progress) {
  std::lock_guard lock(mutex_);
  const auto part = std::ranges::find(status_.parts, progress.stage, &load_part::stage);
  if (part == status_.parts.end()) return;
  part->bytes_read = progress.done;
  part->num_bytes = progress.total;
}

void late_backend::serve(std::unique_ptr<backend> runtime) {
  PACELINE_CHECK(ready() == nullptr, "the models are loaded already");
  runtime_ = std::move(runtime);
  ready_.store(runtime_.get(), std::memory_order_release);
}

backend& late_backend::served() const {
  PACELINE_CHECK(ready() != nullptr, "a request while the models are being loaded");
  return *ready();
}

std::optional<load_status> late_backend::loading() const {
  if (ready() != nullptr) return std::nullopt;
  std::lock_guard lock(mutex_);
  return status_;
}

const model_view* late_backend::model(std::string_view name) const noexcept {
  const auto* runtime = ready();
  return runtime == nullptr ? nullptr : runtime->model(name);
}

std::vector<const model_view*> late_backend::models() const {
  const auto* runtime = ready();
  return runtime == nullptr ? std::vector<const model_view*>() : runtime->models();
}

request_id late_backend::submit(generation_request request, event_sink sink, flow_control flow) {
  return served().submit(std::move(request), std::move(sink), flow);
}

void late_backend::cancel(request_id request) { served().cancel(request); }

void late_backend::grant(request_id request, std::uint32_t tokens) { served().grant(request, tokens); }

bool late_backend::healthy() const noexcept {
  const auto* runtime = ready();
  return runtime == nullptr || runtime->healthy();
}

engine_snapshot late_backend::snapshot() const {
  const auto* runtime = ready();
  return runtime == nullptr ? engine_snapshot() : runtime->snapshot();
}

} // namespace paceline::server
