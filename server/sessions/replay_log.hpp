#pragma once

#include "server/sessions/kept_memory.hpp"
#include "server/sessions/response_session.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace paceline::server {

/// The position at which a reader starts in the events of a response.
struct replay_start {
  std::optional<std::uint32_t> next_token; ///< the first output token that the reader has not seen
  /// The last event that the reader has seen (OpenAI's starting_after).
  std::optional<std::uint64_t> after_sequence;
  bool only_result = false; ///< the reader waits for the end and takes no events
};

/// The events of one resumable response, kept for clients that reconnect. Written on the response's executor
/// and read on a connection's executor. There is one reader at a time; a new reader replaces it. Above
/// `max_bytes`, the oldest events that the reader has taken are dropped. The generation pauses while the
/// events that are not taken have more than `max_bytes` / 2 bytes. `kept_memory` does not evict a log that is
/// being read. If `kept_memory` is used up and nothing can be evicted, the log drops all taken events, and
/// the generation pauses while the other events have more than 64 KiB.
///
/// The client of a response that is not streamed wants its result and may never ask for events. So while
/// nobody reads events of such a response, they count as taken: the generation does not pause, and the log
/// keeps the newest ones.
class replay_log final : public response_listener {
 public:
  /// `is_streamed`: the client has asked for events.
  explicit replay_log(std::size_t max_bytes, bool is_streamed = true)
      : max_bytes_(max_bytes), is_streamed_(is_streamed), awaits_events_(is_streamed) {}

  /// Counts the log's bytes in `memory`, with `claim`. Must be called first.
  void keep_in(std::shared_ptr<kept_memory> memory, std::shared_ptr<kept_memory::claim> claim);

  /// Called without the log's lock. A reader is notified on the thread of the writer, or of the reader that
  /// replaces it. The writer (`on_room`) is notified on the thread of the reader. Must only post a task.
  using notification = std::function<void()>;

  void on_event(const wire::response_event& event) override;
  void on_finished(const finished_response& finished) override { on_end({}, finished); }
  /// Appends the last events and the result in one step: a reader that takes the last event learns the end.
  void on_end(const std::vector<wire::response_event>& closing, const finished_response& finished) override;
  bool congested() const override;

  /// Makes the caller the reader, starting at `start`. `notify` is called when events arrive or another
  /// reader replaces this one. Returns an id of this reader; nullopt if `start` is before the oldest event
  /// kept or after the newest, or if the log has been evicted or closed.
  std::optional<std::uint64_t> attach(const replay_start& start, notification notify);
  void detach(std::uint64_t reader, time_point now);

  struct batch {
    std::vector<wire::response_event> events;
    bool finished = false; ///< no events follow
    bool replaced = false; ///< another reader has replaced this one
  };
  /// The next events, up to about `max_bytes`, but at least one if there is one.
  batch take(std::uint64_t reader, std::size_t max_bytes);

  /// How the response ended; null while it runs.
  std::shared_ptr<const finished_response> result() const;
  /// Closes the log, for ever, if it has had no reader since `deadline` or earlier. Returns true if it is
  /// closed.
  [[nodiscard]] bool close_if_unread(time_point deadline);

  /// `notify` is called, without the log's lock, when the log is no longer congested.
  void on_room(notification notify);

 private:
  void append(const wire::response_event& event);
  void drop_taken();
  /// Counts all events as taken, unless `awaits_events_`.
  void skip_unawaited();
  bool is_congested() const;
  void count();
  /// Called after the log has grown, without the log's lock: evicts other entries of `memory_` if necessary.
  void make_room();
  /// Sequence number of the first event for a reader that has the tokens before `next_token`; nullopt if it
  /// was dropped.
  std::optional<std::uint64_t> after_token(std::uint32_t next_token) const;

  const std::size_t max_bytes_;
  const bool is_streamed_;
  mutable std::mutex mutex_;
  std::deque<wire::response_event> events_;
  std::uint64_t first_sequence_ = 0; ///< of events_.front()
  std::uint64_t next_sequence_ = 0;  ///< sequence number of the reader's next event
  std::size_t num_bytes_ = 0;        ///< of events
  std::size_t untaken_bytes_ = 0;
  std::size_t result_bytes_ = 0;
  std::shared_ptr<kept_memory> memory_;
  std::shared_ptr<kept_memory::claim> claim_; ///< null: not accounted for
  bool memory_is_short_ = false;
  bool awaits_events_; ///< a reader takes events, or the response is streamed and has no reader now
  std::uint64_t reader_ = 0;
  std::optional<time_point> unread_since_; ///< nullopt: it has a reader, or has never had one
  bool is_closed_ = false;
  notification notify_reader_;
  notification notify_writer_;
  std::shared_ptr<const finished_response> finished_;
};

} // namespace paceline::server
