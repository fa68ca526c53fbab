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

/// Where in a response a reader begins.
struct replay_start {
  std::optional<std::uint32_t> next_token;     ///< the first output token not seen yet
  std::optional<std::uint64_t> after_sequence; ///< the last event seen (OpenAI's starting_after)
};

/// The events of one resumable response, kept for readers that come back. Written on the response's executor,
/// read on that of a connection; one reader at a time, a new one takes over. Bounded: what the reader has
/// taken is dropped from the front above `max_bytes`, and what it has not taken pauses the generation there.
/// Where the memory for all that is kept is short, both happen at once: a log that is being read does not go.
class replay_log final : public response_listener {
 public:
  explicit replay_log(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Counts the log in `memory`, by its `claim`. Before anything else.
  void keep_in(std::shared_ptr<kept_memory> memory, std::shared_ptr<kept_memory::claim> claim);

  /// Called with the log unlocked, on the writer's or the next reader's thread; must only post.
  using notification = std::function<void()>;

  void on_event(const wire::response_event& event) override;
  void on_finished(const finished_response& finished) override;
  bool congested() const override;

  /// Makes the caller the reader, from `start` on. `notify` is called when there is more to take, or when
  /// another reader took over. None if `start` lies before what is still kept. Returns a number that names
  /// this reader.
  std::optional<std::uint64_t> attach(const replay_start& start, notification notify);
  void detach(std::uint64_t reader, time_point now);

  struct batch {
    std::vector<wire::response_event> events;
    bool finished = false; ///< nothing follows
    bool replaced = false; ///< another reader has taken over
  };
  /// Next events, at least one if there is one, up to about `max_bytes`.
  batch take(std::uint64_t reader, std::size_t max_bytes);

  /// How the response ended; none while it runs.
  std::shared_ptr<const finished_response> result() const;
  /// Since when nobody reads; none while somebody does.
  std::optional<time_point> unread_since() const;

  /// Called (unlocked) when room was made after `congested`.
  void on_room(notification notify);

 private:
  void drop_taken();
  bool is_congested() const;
  void count();
  /// What the log holds has grown: others may have to go, unlocked.
  void make_room();
  /// Sequence number of the first event for a reader that has the tokens before `next_token`; none if it is
  /// gone.
  std::optional<std::uint64_t> after_token(std::uint32_t next_token) const;

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::deque<wire::response_event> events_;
  std::uint64_t first_sequence_ = 0; ///< of events_.front()
  std::uint64_t next_sequence_ = 0;  ///< the reader's next event
  std::size_t num_bytes_ = 0;        ///< of events
  std::size_t untaken_bytes_ = 0;
  std::size_t result_bytes_ = 0;
  std::shared_ptr<kept_memory> memory_;
  std::shared_ptr<kept_memory::claim> claim_; ///< none: not counted
  bool memory_is_short_ = false;
  std::uint64_t reader_ = 0;
  std::optional<time_point> unread_since_;
  notification notify_reader_;
  notification notify_writer_;
  std::shared_ptr<const finished_response> finished_;
};

} // namespace paceline::server
