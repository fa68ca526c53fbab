#include "runtime/rounds/draft_sessions.hpp"

#include <utility>

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

draft_sessions::~draft_sessions() {
  for (auto& [request, one] : entries_) end(one);
}

draft_sessions::entry& draft_sessions::of(const std::shared_ptr<const committed_log>& log) {
  auto& found = entries_[log->terms().id()];
  if (!found.log) found.log = log;
  return found;
}

speculation::drafter_session* draft_sessions::session(const std::shared_ptr<const committed_log>& log) {
  auto& found = of(log);
  if (!found.session) found.session = drafter_->open(log->terms().id());
  return found.session.get();
}

constraint_cursor* draft_sessions::constraint(const std::shared_ptr<const committed_log>& log,
                                              std::size_t num_output) {
  return of(log).constraint.at(log->terms().request().constraint.get(), num_output);
}

speculation::drafter_session* draft_sessions::find(request_id request, std::uint64_t lease) const {
  const auto found = entries_.find(request);
  return found == entries_.end() || found->second.lease != lease ? nullptr : found->second.session.get();
}

void draft_sessions::reset(request_id request) {
  const auto found = entries_.find(request);
  if (found == entries_.end()) return;
  found->second.session.reset();
  found->second.hypotheses = {};
  found->second.cells = {};
  found->second.drafted_at = 0;
  found->second.lease = 0;
}

void draft_sessions::adopt(const std::shared_ptr<const committed_log>& log,
                           std::unique_ptr<speculation::drafter_session> session) {
  of(log).session = std::move(session);
}

void draft_sessions::drop_ended() {
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (!it->second.log->is_over()) {
      ++it;
      continue;
    }
    end(it->second);
    it = entries_.erase(it);
  }
}

void draft_sessions::drop_all() {
  drop_ended();
  entries_.clear();
}

void draft_sessions::end(entry& ended) noexcept {
  const auto& terms = ended.log->terms();
  if (ended.session) ended.session->end({ended.log->tokens(), terms.prompt_length(), terms.request().tenant});
}

} // namespace paceline::rounds
