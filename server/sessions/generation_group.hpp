#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/usage.hpp"
#include "server/edge_context.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::server {

/// Receives the events of a generation_group, on the group's executor.
class generation_observer {
 public:
  virtual ~generation_observer() = default;
  virtual void on_event(std::size_t sequence, const token_event& event) = 0;
  /// True if this sequence must pause because too much output waits for the client or is kept for it. Credit
  /// is withheld until `generation_group::on_writable` or the end of another sequence.
  virtual bool congested(std::size_t sequence) const = 0;
};

/// What limits how far the sequences of a group may run ahead of the consumer of their output.
enum class pacing : std::uint8_t {
  engine, ///< no limit: the whole output is kept until the end
  /// Output is kept, and sequences pause while the observer has no room (`generation_observer::congested`).
  room,
  client, ///< output is sent, and sequences pause while the client does not read
};

/// The engine requests of one client request. Passes their events to the observer on the session's executor,
/// grants credit as the client reads, and measures times. All functions must be called on the executor.
///
/// Invariant: every submitted request either delivers its final event or is cancelled when the group is
/// destroyed; the first `num_submitted_` requests are submitted.
class generation_group : public std::enable_shared_from_this<generation_group> {
 public:
  generation_group(const edge_context& edge, executor_ptr executor,
                   std::weak_ptr<generation_observer> observer, std::string tenant, time_point arrival);
  ~generation_group();
  generation_group(const generation_group&) = delete;
  generation_group& operator=(const generation_group&) = delete;

  /// Submits all sequences: the first few at once, the others in separate tasks, so that other work of the
  /// executor's thread can run in between. Unless `how` is `pacing::engine`, a sequence commits at most as
  /// many further tokens as its credit (`edge_limits::initial_credit`, or less if the group has many
  /// sequences) once the observer is congested. If the sequences need more of the model's places for requests
  /// than this API key may take (`waiting_places`), returns an error and submits nothing.
  std::optional<wire::api_error> start(const model_view& model, std::vector<generation_request> sequences,
                                       pacing how);
  /// Cancels the running sequences; their final events (cancelled) are still delivered.
  void cancel();
  /// Must be called when the observer needs no output of this sequence after `event`: cancels the sequence,
  /// whose request must have `stats_in_events`. The final event of the sequence has no tokens; it has
  /// `finish_reason::stop`, and the timings and speculation figures of `event`.
  void stop(std::size_t sequence, const token_event& event);
  /// The observer may no longer be congested: continues the sequences that have room.
  void on_writable();

  std::size_t num_running() const noexcept { return num_running_; }
  std::uint32_t num_tokens(std::size_t sequence) const { return sequences_.at(sequence).num_tokens; }
  std::uint32_t prompt_tokens(std::size_t sequence) const { return sequences_.at(sequence).prompt_tokens; }
  /// Figures of a finished sequence.
  wire::generation_metrics metrics_of(std::size_t sequence, const token_event& last) const;

 private:
  struct sequence {
    request_id id;
    std::uint32_t prompt_tokens = 0;
    std::uint32_t num_tokens = 0;
    std::uint32_t owed_credit = 0; ///< tokens received for which no new credit was granted yet
    stream_board::entry shown;     ///< its entry for /paceline/events while it runs
    bool finished = false;
    time_point last_tokens{};
    std::optional<token_event> ending; ///< of a sequence that was stopped: the event to deliver at its end
  };

  void submit_some();
  void deliver(std::size_t index, const token_event& event);
  void pass_on(std::size_t index, const token_event& event);
  void measure(sequence& entry, const token_event& event);
  void measure_write(const token_event& event);
  void measure_end(const sequence& entry, const token_event& event);
  void repay(std::size_t index);
  /// As far as the observer has room, continues paused sequences, and gives first credit to sequences that
  /// have waited for others of the group to end.
  void go_on();

  const edge_context& edge_;
  executor_ptr executor_;
  std::weak_ptr<generation_observer> observer_;
  std::string tenant_;
  std::string model_; ///< the sequences take places of this model (`waiting_places`)
  time_point arrival_;
  model_metrics* metrics_ = nullptr;
  std::vector<sequence> sequences_;
  std::vector<generation_request> requests_; ///< one for each sequence, until all are submitted
  std::size_t num_submitted_ = 0;
  std::size_t num_running_ = 0;
  pacing pacing_ = pacing::engine;
  std::uint32_t window_ = 0;   ///< credit of a sequence, if limited
  std::size_t num_opened_ = 0; ///< sequences that have received credit: the first ones
  bool withholding_ = false;
};

/// Log-probabilities with the text of their tokens.
std::vector<wire::token_score> with_text(const std::vector<token_logprob>& scores, const model_view& model);

} // namespace paceline::server
