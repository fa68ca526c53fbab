#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/usage.hpp"
#include "server/edge_context.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::server {

/// Where a group's events go. Called on the group's executor.
class generation_observer {
 public:
  virtual ~generation_observer() = default;
  virtual void on_event(std::size_t sequence, const token_event& event) = 0;
  /// Too much waits for the client, or is kept for it, for this sequence to go on: credit is withheld until
  /// `generation_group::on_writable` or the end of another sequence.
  virtual bool congested(std::size_t sequence) const = 0;
};

/// Who decides how far the sequences of a group run ahead.
enum class pacing : std::uint8_t {
  engine, ///< nobody: what they say is kept until the end
  room,   ///< what they say is kept; the group's observer says when there is no more room
  client, ///< what they say is sent; they go on as the client takes it
};

/// The engine requests behind one client request. Brings their events onto the session's executor, hands out
/// credit as the client takes what it was sent, and measures. All functions on the executor.
///
/// Invariant: every submitted request either delivers its final event or is cancelled when the group goes;
/// the first `num_submitted_` are submitted.
class generation_group : public std::enable_shared_from_this<generation_group> {
 public:
  generation_group(const edge_context& edge, executor_ptr executor,
                   std::weak_ptr<generation_observer> observer, std::string tenant, time_point arrival);
  ~generation_group();
  generation_group(const generation_group&) = delete;
  generation_group& operator=(const generation_group&) = delete;

  /// Submits all sequences of a model: the first few now, the others in turns of their own, so that other
  /// work of the executor's thread comes in between. Unless `how` is `pacing::engine` they run ahead of an
  /// observer that is congested by the configured credit only. An error, and nothing submitted, if that would
  /// take places that are kept for other keys.
  std::optional<wire::api_error> start(const model_view& model, std::vector<generation_request> sequences,
                                       pacing how);
  /// Ends what still runs; its final events (cancelled) are still delivered.
  void cancel();
  /// The client has taken what waited for it.
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
    std::uint32_t owed_credit = 0;
    bool finished = false;
    time_point last_tokens{};
  };

  void submit_some();
  void deliver(std::size_t index, const token_event& event);
  void measure(sequence& entry, const token_event& event);
  void measure_write(const token_event& event);
  void measure_end(const sequence& entry, const token_event& event);
  void repay(std::size_t index);
  /// Lets sequences go on that were held back, and those begin that wait for others of the group, where the
  /// observer has room for them.
  void go_on();

  const edge_context& edge_;
  executor_ptr executor_;
  std::weak_ptr<generation_observer> observer_;
  std::string tenant_;
  std::string model_; ///< whose places are taken, one a running sequence
  time_point arrival_;
  model_metrics* metrics_ = nullptr;
  std::vector<sequence> sequences_;
  std::vector<generation_request> requests_; ///< one a sequence, until all are submitted
  std::size_t num_submitted_ = 0;
  std::size_t num_running_ = 0;
  pacing pacing_ = pacing::engine;
  std::uint32_t window_ = 0;   ///< of credit, if paced
  std::size_t num_opened_ = 0; ///< the first ones; the others have no credit yet
  bool withholding_ = false;
};

/// Log-probabilities with the text of their tokens.
std::vector<wire::token_score> with_text(const std::vector<token_logprob>& scores, const model_view& model);

} // namespace paceline::server
