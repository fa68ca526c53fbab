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
  /// Passes each session the final tokens of its request (`drafter_session::end`).
  ~draft_sessions();
  draft_sessions(const draft_sessions&) = delete;
  draft_sessions& operator=(const draft_sessions&) = delete;

  struct entry {
    std::shared_ptr<const scheduling::committed_log> log;
    std::unique_ptr<speculation::drafter_session> session; ///< created at first use, see `session`
    hypothesis_sessions hypotheses;                        ///< of a beam search, for a drafter without cells
    hypothesis_cells cells; ///< of a beam search, for a drafter whose cells hypotheses can share
    /// Committed length when the session had last read the whole text; 0 before that and after a reset.
    std::uint32_t drafted_at = 0;
    std::uint64_t lease = 0; ///< number of the lease in which the session's cells lie
    draft_cursor constraint; ///< kept at a reset: a cursor can change to any text
  };
  /// The request's entry, created at first use.
  entry& of(const std::shared_ptr<const scheduling::committed_log>& log);
  /// The request's session, opened at first use.
  speculation::drafter_session* session(const std::shared_ptr<const scheduling::committed_log>& log);
  /// The cursor of the request's constraint, for this worker's drafts that continue `num_output` committed
  /// output tokens; null: no constraint.
  constraint_cursor* constraint(const std::shared_ptr<const scheduling::committed_log>& log,
                                std::size_t num_output);
  /// The request's session if it has one in this lease, else null.
  speculation::drafter_session* find(request_id request, std::uint64_t lease) const;
  /// Drops the request's sessions and its lease number. The drafter starts over, and the next program for the
  /// request makes the copies of the lease again (`plan_item::drafter_copies`).
  void reset(request_id request);
  /// Replaces the request's session by `session`, a clone of it.
  void adopt(const std::shared_ptr<const scheduling::committed_log>& log,
             std::unique_ptr<speculation::drafter_session> session);
  /// Drops the sessions of requests that are over (`committed_log::is_over`).
  void drop_ended();
  /// Drops all sessions. Only sessions of requests that are over get the final tokens, because the logs of
  /// the others must not be read now.
  void drop_all();

  std::size_t size() const noexcept { return entries_.size(); }

 private:
  static void end(entry& ended) noexcept;

  speculation::drafter* drafter_;
  std::map<request_id, entry> entries_;
};

} // namespace paceline::rounds
