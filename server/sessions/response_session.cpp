#include "server/sessions/response_session.hpp"

#include "server/sessions/response_store.hpp"

#include <utility>

namespace paceline::server {

response_session::response_session(const edge_context& edge, executor_ptr executor,
                                   std::weak_ptr<response_listener> listener, prepared_response prepared,
                                   std::string tenant, const std::string& id, std::string stream_id,
                                   time_point arrival)
    : edge_(edge), executor_(std::move(executor)), listener_(std::move(listener)),
      prepared_(std::move(prepared)),
      reader_(prepared_.output, *prepared_.model, prepared_.request.fields.skip_special_tokens),
      tenant_(std::move(tenant)), arrival_(arrival),
      narrator_(
          {id, "msg_" + id.substr(id.find('_') + 1), std::move(stream_id), unix_time(),
           prepared_.model->limits().name},
          prepared_.request, [&model = *prepared_.model](token_id token) { return model.token_bytes(token); },
          reader_.finds_nothing()) {
  // The narrator has these fields. The input is now in the sequence and the conversation.
  prepared_.request.instructions = {};
  prepared_.request.tools = {};
  prepared_.request.input = {};
}

void response_session::start() {
  tell(narrator_.open());
  group_ = std::make_shared<generation_group>(edge_, executor_, weak_from_this(), tenant_, arrival_);
  ends_ = end_tokens(prepared_.sequence.stop);
  std::vector<generation_request> sequences;
  sequences.push_back(std::exchange(prepared_.sequence, {}));
  const auto& request = prepared_.request;
  const auto paced = request.fields.stream       ? pacing::client
                     : request.options.resumable ? pacing::room // somebody may read its events
                                                 : pacing::engine;
  const auto refused = group_->start(*prepared_.model, std::move(sequences), paced);
  if (!refused) return;
  token_event last;
  last.finish = finish_reason::error;
  end(last, refused);
}

void response_session::cancel() {
  if (group_) group_->cancel();
}

bool response_session::fail(const wire::api_error& why) {
  if (finished_ || !group_) return false;
  token_event last;
  last.finish = finish_reason::error;
  end(last, why);
  return true;
}

void response_session::abandon() {
  finished_ = true;
  if (group_ && group_->num_running() > 0) ++edge_.metrics.disconnect_cancels;
  group_.reset(); // destroying the group cancels it
}

void response_session::on_writable() {
  if (group_) group_->on_writable();
}

bool response_session::congested(std::size_t) const {
  const auto listener = listener_.lock();
  return listener && listener->congested();
}

void response_session::tell(const wire::response_event& event) {
  if (const auto listener = listener_.lock()) listener->on_event(event);
}

void response_session::tell(const std::vector<wire::response_event>& events) {
  for (const auto& event : events) tell(event);
}

void response_session::on_event(std::size_t sequence, const token_event& event) {
  if (finished_) return;
  if (event.trace) tell(narrator_.round(*event.trace));
  auto items = reader_.read(event);
  if (prepared_.request.generate)
    tell(narrator_.delta(
        {std::move(items), event.tokens, reader_.scores_of_answer(ends_.scores_of_text(event))}));
  if (event.finish == finish_reason::none) {
    if (group_ && reader_.wants_no_more()) group_->stop(sequence, event);
    return;
  }
  std::optional<wire::api_error> failure;
  if (event.finish == finish_reason::error)
    failure = wire::from_error(event.failure.value_or(error{errc::internal, ""}));
  end(event, std::move(failure));
}

void response_session::end(const token_event& last, std::optional<wire::api_error> failure) {
  finished_ = true;
  finished_response finished;
  auto& outcome = finished.outcome;
  outcome.finish = reader_.finish_of(last.finish);
  outcome.failure = std::move(failure);
  outcome.ended = unix_time();
  const auto generated = prepared_.request.generate ? group_->num_tokens(0) : 0;
  outcome.used.has_prediction = prepared_.request.fields.has_prediction;
  outcome.used.reasoning_tokens = prepared_.request.generate ? reader_.num_reasoning_tokens() : 0;
  wire::add(outcome.used, last, group_->prompt_tokens(0), generated, true);
  outcome.metrics = group_->metrics_of(0, last);
  outcome.metrics->completion_tokens = generated;
  // A warm-up is complete, whatever the reason for the end of its one discarded token.
  if (!prepared_.request.generate && last.finish == finish_reason::length)
    outcome.finish = finish_reason::stop;
  const auto closing = narrator_.close(outcome);
  finished.id = id();
  finished.object = narrator_.object();
  finished.continuable = outcome.finish != finish_reason::error;
  finished.stored = finished.continuable && prepared_.request.store;
  finished.conversation = std::move(prepared_.conversation);
  finished.num_input_turns = finished.conversation.size();
  finished.items = narrator_.items();
  if (prepared_.request.generate) finished.conversation.push_back(narrator_.answer());
  // The response is stored first, because a client that has read the end may refer to it at once.
  if (finished.stored && store_) store_->put(tenant_, finished, edge_.now());
  group_.reset();
  prepared_.request = {}; // the session of a resumable response exists until its events expire
  if (const auto listener = listener_.lock()) listener->on_end(closing, finished);
}

} // namespace paceline::server
