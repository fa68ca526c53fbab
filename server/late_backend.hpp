#pragma once

#include "server/backend.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::server {

/// A backend for a server whose port opens before the models are loaded:
///
///     loading ── serve ──▶ serving
///
/// While models are being loaded, it has no models and is healthy; `submit`, `cancel` and `grant` must not be
/// called. Thread-safe.
class late_backend final : public backend {
 public:
  /// `parts`: what will be loaded, in the order of loading.
  explicit late_backend(std::vector<load_part> parts) : status_{std::move(parts)} {}

  /// Records the progress of the part whose `load_part::stage` is `progress.stage`. Other stages are ignored.
  void note(const load_progress& progress);
  /// Called once, when the models are loaded: from now on calls go to `runtime`.
  void serve(std::unique_ptr<backend> runtime);

  std::optional<load_status> loading() const override;
  const model_view* model(std::string_view name) const noexcept override;
  std::vector<const model_view*> models() const override;
  request_id submit(generation_request request, event_sink sink, flow_control flow) override;
  void cancel(request_id request) override;
  void grant(request_id request, std::uint32_t tokens) override;
  bool healthy() const noexcept override;
  engine_snapshot snapshot() const override;

 private:
  backend* ready() const noexcept { return ready_.load(std::memory_order_acquire); }
  backend& served() const;

  mutable std::mutex mutex_;
  load_status status_;
  std::unique_ptr<backend> runtime_;
  std::atomic<backend*> ready_{nullptr}; ///< `runtime_`, once it may be used
};

} // namespace paceline::server
