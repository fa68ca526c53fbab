#pragma once

#include "protocol/wire/response_events.hpp"
#include "server/sessions/choice_reader.hpp"
#include "server/sessions/end_tokens.hpp"
#include "server/sessions/generation_group.hpp"
#include "server/sessions/preparation.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::server {

class response_store;

/// How a response ended.
struct finished_response {
  std::string id;
  wire::response_outcome outcome;
  wire::output_json object; ///< the response object
  bool continuable = false; ///< it did not fail, so a later request may continue it
  bool stored = false;      ///< it did not fail, and the client allows the server to keep it
  std::vector<wire::chat_message> conversation;                  ///< all turns, the answer included
  std::size_t num_input_turns = 0;                               ///< turns before the answer
  std::vector<std::shared_ptr<const wire::response_part>> items; ///< of the output; shared with `object`
};

/// Receives the events of a response: an HTTP exchange, a lane of a WebSocket (one `stream_id`), or the log
/// of a resumable response (replay_log). All functions are called on the session's executor, except the
/// functions of a replay_sink, which are called on the sink's executor.
class response_listener {
 public:
  virtual ~response_listener() = default;
  virtual void on_event(const wire::response_event& event) = 0;
  virtual void on_finished(const finished_response& finished) = 0;
  /// The last events, and how the response ended. A client that has read the last event may refer to the
  /// response at once. So a listener that is read on another thread must not show that event before the end.
  virtual void on_end(const std::vector<wire::response_event>& closing, const finished_response& finished) {
    for (const auto& event : closing) on_event(event);
    on_finished(finished);
  }
  /// True if the generation must pause, as in `generation_observer::congested`.
  virtual bool congested() const = 0;
};

/// Generates one response and passes its events to the listener. From `start` on, all functions except `id`
/// must be called on the executor. The listener receives exactly one `on_end`, unless `abandon` is called
/// first.
class response_session final : public generation_observer,
                               public std::enable_shared_from_this<response_session> {
 public:
  response_session(const edge_context& edge, executor_ptr executor, std::weak_ptr<response_listener> listener,
                   prepared_response prepared, std::string tenant, const std::string& id,
                   std::string stream_id, time_point arrival);

  /// Keeps the response in `store` when it has ended, unless it failed or the client does not allow it. Must
  /// be called before `start`.
  void keep_in(std::shared_ptr<response_store> store) { store_ = std::move(store); }
  /// Submits the generation and sends the opening events.
  void start();
  /// Cancels the generation; the listener still receives the final events.
  void cancel();
  /// Ends the response with error `why`; the listener receives the final events. False if the response has
  /// not started or has ended already.
  [[nodiscard]] bool fail(const wire::api_error& why);
  /// The client is gone: ends the response without further events.
  void abandon();
  /// The listener may have room again (`generation_group::on_writable`).
  void on_writable();

  const std::string& id() const noexcept { return narrator_.identity().id; }
  /// The response object without output, for readers while the response runs. Must be called before `start`.
  wire::output_json object_without_output(std::string status) const {
    return narrator_.object_without_output(std::move(status));
  }
  bool finished() const noexcept { return finished_; }

  void on_event(std::size_t sequence, const token_event& event) override;
  bool congested(std::size_t sequence) const override;

 private:
  void tell(const wire::response_event& event);
  void tell(const std::vector<wire::response_event>& events);
  void end(const token_event& last, std::optional<wire::api_error> failure);

  const edge_context& edge_;
  executor_ptr executor_;
  std::weak_ptr<response_listener> listener_;
  prepared_response prepared_;
  choice_reader reader_;
  end_tokens ends_;
  std::string tenant_;
  time_point arrival_;
  wire::response_narrator narrator_;
  std::shared_ptr<generation_group> group_;
  std::shared_ptr<response_store> store_; ///< null: responses are not kept
  bool finished_ = false;
};

} // namespace paceline::server
