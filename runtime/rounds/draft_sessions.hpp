#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/token_constraint.hpp"
#include "runtime/rounds/draft_cursor.hpp"
#include "runtime/rounds/hypothesis_cells.hpp"
#include "runtime/rounds/hypothesis_sessions.hpp"
#include "runtime/scheduling/committed_log.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace paceline::rounds {

/// The drafter sessions of a draft worker's requests, and how far each session has followed its request.
///
/// Threads: used by programs of the worker's stream.
class draft_sessions {
 public:
  explicit draft_sessions(speculation::drafter& drafter) : drafter_(&drafter) {}
  /// Tells the sessions the final tokens of their requests.
  ~draft_sessions();
  draft_sessions(const draft_sessions&) = delete;
  draft_sessions& operator=(const draft_sessions&) = delete;

  struct entry {
    std::shared_ptr<const scheduling::committed_log> log;
    std::unique_ptr<speculation::drafter_session> session; ///< created at first use, see `session`
    hypothesis_sessions hypotheses;                        ///< of a beam search, for a drafter without cells
    hypothesis_cells cells; ///< of a beam search, for a drafter whose cells hypotheses can share
    /// Committed length at which the session had last caught up; 0 before, and after a reset.
    std::uint32_t drafted_at = 0;
    std::uint64_t lease = 0; ///< number of the lease in which the session's cells lie
    draft_cursor constraint; ///< follows any text
  };
  entry& of(const std::shared_ptr<const scheduling::committed_log>& log);
  speculation::drafter_session* session(const std::shared_ptr<const scheduling::committed_log>& log);
  /// The cursor of the request's constraint, for this worker's drafts that continue `num_output` committed
  /// output tokens; null: no constraint.
  constraint_cursor* constraint(const std::shared_ptr<const scheduling::committed_log>& log,
                                std::size_t num_output);
  /// The request's session if it has one in this lease, else null.
  speculation::drafter_session* find(request_id request, std::uint64_t lease) const;
  /// Drops the request's sessions: the drafter starts over, and its lease has to be entered again.
  void reset(request_id request);
  /// Replaces the request's session by `session`, a clone of it.
  void adopt(const std::shared_ptr<const scheduling::committed_log>& log,
             std::unique_ptr<speculation::drafter_session> session);
  /// Drops the sessions of requests that are over (`committed_log::is_over`).
  void drop_ended();
  /// Drops all sessions. The sessions of requests that go on are not told the final tokens, because these
  /// must not be read now.
  void drop_all();

  std::size_t size() const noexcept { return entries_.size(); }

 private:
  static void end(entry& ended) noexcept;

  speculation::drafter* drafter_;
  std::map<request_id, entry> entries_;
};

} // namespace paceline::rounds
