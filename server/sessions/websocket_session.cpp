#include "server/sessions/websocket_session.hpp"

#include "server/http/error_reply.hpp"
#include "server/sessions/preparation.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace paceline::server {

/// One response in flight.
class websocket_session::lane final : public replay_sink {
 public:
  lane(std::weak_ptr<websocket_session> session, std::string stream_id)
      : session_(std::move(session)), stream_id_(std::move(stream_id)) {}

  told_response told;

  void on_event(const wire::response_event& event) override {
    const auto session = session_.lock();
    if (!session || !session->channel_) return;
    if (event.long_json)
      session->channel_->send(event.long_json->open());
    else
      session->channel_->send(event.json);
  }
  void on_finished(const finished_response& finished) override {
    const auto session = session_.lock();
    if (!session) return;
    if (finished.continuable) session->conversations_.put(finished.id, finished.conversation);
    session->note_end(finished.id);
    session->end_lane(stream_id_);
  }
  void on_replaced() override {
    const auto session = session_.lock();
    if (!session) return;
    session->refuse(
        {409, "conflict_error", "reader_replaced", "another connection reads this response now", "", 0},
        stream_id_);
    session->end_lane(stream_id_);
  }
  bool congested() const override {
    const auto session = session_.lock();
    return session && session->channel_ && session->channel_->congested();
  }

 private:
  std::weak_ptr<websocket_session> session_;
  std::string stream_id_;
};

namespace {

/// Parses a message. A prediction is truncated to the usable length, because its ids may need more memory
/// than its text, and the claim counts the text only.
std::variant<wire::client_frame, wire::refused_frame> read_frame(const edge_context& edge,
                                                                 const request_body& message) {
  if (auto gone = begin_reading(edge, message)) return wire::refused_frame{"", *std::move(gone)};
  auto frame = wire::parse_client_frame(message.text, request_limits_of(edge));
  if (auto* accepted = std::get_if<wire::client_frame>(&frame))
    if (const auto model = find_model(edge.runtime, accepted->create.fields.model))
      if (auto failure = wire::keep_usable_prediction(accepted->create.fields, (*model)->limits()))
        return wire::refused_frame{accepted->stream_id, *std::move(failure)};
  return frame;
}

} // namespace

websocket_session::websocket_session(const response_services& services, executor_ptr executor,
                                     std::shared_ptr<frame_channel> channel, caller who)
    : services_(services), executor_(std::move(executor)), channel_(std::move(channel)), who_(std::move(who)),
      conversations_(services.edge.limits.max_stored_responses, services.edge.limits.max_stored_bytes,
                     services.kept, who_.tenant) {}

websocket_session::~websocket_session() = default;

void websocket_session::on_text(request_body message) {
  const auto arrival = services_.edge.now();
  const auto traits = traits_of(services_.edge, who_, message.text.size());
  const bool accepted = services_.edge.jobs.submit(
      [self = shared_from_this(), message = std::move(message), arrival, large = traits.large]() mutable {
        auto frame = read_frame(self->services_.edge, message);
        // The text is freed here, so it does not exist together with the objects made from it.
        message_claim claim{large, std::exchange(message, {}).place};
        self->executor_->post([self, frame = std::move(frame), arrival, claim = std::move(claim)]() mutable {
          self->handle(std::move(frame), arrival, std::move(claim));
        });
      },
      traits);
  if (accepted) return;
  ++services_.edge.metrics.edge_rejections;
  refuse({503, "service_unavailable_error", "overloaded", "too many requests wait to be parsed", "", 1}, "");
  if (channel_) channel_->read_next();
}

void websocket_session::on_binary(request_body) {
  if (channel_) std::exchange(channel_, nullptr)->close(close_code::unsupported_data, "messages are text");
  on_disconnect();
}

void websocket_session::on_overload() {
  refuse({503, "service_unavailable_error", "overloaded", "too many large messages arrive at once", "", 1},
         "");
  if (channel_) std::exchange(channel_, nullptr)->close(close_code::try_again, "overloaded");
  on_disconnect();
}

void websocket_session::refuse(const wire::api_error& failure, const std::string& stream_id) {
  if (channel_) channel_->send(wire::to_error_frame(failure, stream_id));
}

void websocket_session::handle(std::variant<wire::client_frame, wire::refused_frame> frame,
                               time_point arrival, message_claim claim) {
  if (!channel_) return;
  if (const auto* refused = std::get_if<wire::refused_frame>(&frame)) {
    refuse(refused->failure, refused->stream_id);
  } else {
    auto& accepted = std::get<wire::client_frame>(frame);
    if (accepted.what == wire::client_frame::kind::cancel)
      cancel(accepted);
    else
      create(std::move(accepted), arrival, std::move(claim));
  }
  if (channel_) channel_->read_next();
}

void websocket_session::cancel(const wire::client_frame& frame) {
  const auto& id = frame.response_id;
  if (services_.registry.cancel(id, who_.tenant)) return;
  if (has_ended(id)) return; // the client sent this before it had read the end
  refuse({404, "not_found_error", "response_not_found",
          "no response of the id \"" + id + "\" runs or is kept", "response_id", 0},
         frame.stream_id);
}

void websocket_session::note_end(const std::string& response_id) {
  ended_.push_back(response_id);
  if (ended_.size() > services_.edge.limits.max_stored_responses) ended_.pop_front();
}

bool websocket_session::has_ended(const std::string& response_id) const {
  return std::ranges::find(ended_, response_id) != ended_.end() ||
         find_ended(services_, who_, response_id) != nullptr;
}

void websocket_session::create(wire::client_frame frame, time_point arrival, message_claim claim) {
  const auto& id = frame.stream_id;
  const auto& options = services_.edge.options;
  if (draining_)
    return refuse(
        {503, "service_unavailable_error", "draining", "this connection takes no new responses", "", 1}, id);
  if (lanes_.count(id) != 0)
    return refuse({409, "invalid_request_error", "response_already_in_flight",
                   "this lane has a response in flight", "stream_id", 0},
                  id);
  if (lanes_.size() >= options.max_lanes)
    return refuse(
        {429, "rate_limit_error", "too_many_lanes",
         "at most " + std::to_string(options.max_lanes) + " responses of one connection may be in flight",
         "stream_id", 1},
        id);
  if (const auto& point = frame.create.options.resume) {
    auto added = std::make_shared<lane>(weak_from_this(), id);
    auto told =
        resume(services_, who_, executor_, added, point->response_id, {point->next_token, std::nullopt});
    if (!told) return refuse(told.failure(), id);
    added->told = *std::move(told);
    lanes_.emplace(id, std::move(added));
    return;
  }
  std::vector<wire::chat_message> history;
  if (const auto& previous = frame.create.previous_response_id; !previous.empty()) {
    if (auto known = conversations_.find(previous))
      history = *std::move(known);
    else if (const auto stored = services_.stored->find(previous, who_.tenant, services_.edge.now()))
      history = stored->conversation;
    else
      return refuse(unknown_previous(previous), id);
  }
  auto traits =
      traits_of(services_.edge, who_, wire::text_bytes(history) + wire::text_bytes(frame.create.input));
  // How long the items are that the input refers to is not known yet.
  traits.large = traits.large || claim.large || !frame.create.references.empty() || may_compile(frame.create);
  traits.continues = true; // the frame is kept until then, before other messages are read
  const bool accepted = services_.edge.jobs.submit(
      [self = shared_from_this(), request = std::move(frame.create), history = std::move(history), id,
       arrival, claim = std::move(claim)]() mutable {
        auto unknown = resolve_references(self->services_, self->who_, request);
        auto prepared = unknown ? wire::parsed<prepared_response>(*std::move(unknown))
                                : prepare_response(self->services_.edge, self->who_, std::move(request),
                                                   std::move(history));
        self->executor_->post([self, id, prepared = std::move(prepared), arrival]() mutable {
          self->launch_lane(id, std::move(prepared), arrival);
        });
      },
      traits);
  if (!accepted) {
    ++services_.edge.metrics.edge_rejections;
    return refuse(
        {503, "service_unavailable_error", "overloaded", "too many requests wait to be parsed", "", 1}, id);
  }
  lanes_.emplace(id, std::make_shared<lane>(weak_from_this(), id));
}

void websocket_session::launch_lane(const std::string& stream_id, wire::parsed<prepared_response> prepared,
                                    time_point arrival) {
  const auto found = lanes_.find(stream_id);
  if (!channel_ || found == lanes_.end()) return;
  const auto fail = [&](const wire::api_error& failure) {
    refuse(failure, stream_id);
    end_lane(stream_id);
  };
  if (!prepared) return fail(prepared.failure());
  auto told = launch(services_, who_, executor_, found->second, *std::move(prepared), stream_id, arrival);
  if (!told) return fail(told.failure());
  found->second->told = *std::move(told);
}

void websocket_session::end_lane(const std::string& stream_id) {
  const auto found = lanes_.find(stream_id);
  if (found == lanes_.end()) return;
  found->second->told.leave(services_.registry);
  lanes_.erase(found);
  close_if_drained();
}

void websocket_session::on_writable() {
  // A copy, because a lane whose log has ended removes itself.
  std::vector<std::shared_ptr<lane>> all;
  for (const auto& [id, lane] : lanes_) all.push_back(lane);
  for (const auto& lane : all) lane->told.on_writable();
}

void websocket_session::on_disconnect() {
  channel_.reset();
  for (const auto& [id, lane] : lanes_) lane->told.leave(services_.registry);
  lanes_.clear();
}

void websocket_session::drain() {
  draining_ = true;
  close_if_drained();
}

void websocket_session::expire() {
  refuse({400, "invalid_request_error", "websocket_connection_limit_reached",
          "this connection has reached its lifetime; connect again", "", 0},
         "");
  drain();
}

void websocket_session::shut_down() {
  draining_ = true;
  std::vector<std::string> running;
  for (const auto& [id, lane] : lanes_) running.push_back(id);
  for (const auto& id : running) {
    const auto lane = lanes_.at(id);
    if (lane->told.fail(shutting_down())) continue; // this ends the lane
    refuse(shutting_down(), id);
    end_lane(id);
  }
  close_if_drained();
}

void websocket_session::close_if_drained() {
  if (draining_ && lanes_.empty() && channel_)
    std::exchange(channel_, nullptr)->close(close_code::going_away, "draining");
}

} // namespace paceline::server
