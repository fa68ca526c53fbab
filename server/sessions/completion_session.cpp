#include "server/sessions/completion_session.hpp"

#include "protocol/wire/json_writer.hpp"
#include "server/http/error_reply.hpp"
#include "server/http/http_writer.hpp"
#include "server/sessions/reply_headers.hpp"

#include <algorithm>

namespace paceline::server {

namespace {

constexpr std::size_t longest_text = 256U << 10U; ///< a longer reply is sent in pieces
constexpr std::size_t piece_bytes = 32U << 10U;

pacing pacing_of(const prepared_completion& request, const edge_limits& limits) {
  if (request.stream) return pacing::client;
  return request.most_kept_bytes > limits.kept_of_reply ? pacing::room : pacing::engine;
}

} // namespace

completion_session::completion_session(const edge_context& edge, executor_ptr executor,
                                       std::shared_ptr<reply_channel> channel, caller who)
    : edge_(edge), executor_(std::move(executor)), channel_(std::move(channel)), who_(std::move(who)),
      arrival_(edge.now()) {}

header_list completion_session::headers() const {
  return reply_headers(who_.request_id, request_.ignored_fields);
}

const shared_list<token_id>& completion_session::prompt_of(std::size_t choice) const {
  return request_.prompts.at(choice / request_.num_choices);
}

void completion_session::start(wire::parsed<prepared_completion> prepared) {
  if (!channel_) return; // the client has left
  if (!prepared) return fail(prepared.failure());
  request_ = *std::move(prepared);
  const auto* prefix = request_.chat ? "chatcmpl-" : "cmpl-";
  identity_.id = request_.client_id.empty() ? fresh_id(prefix) : prefix + request_.client_id;
  identity_.created = unix_time();
  identity_.model = request_.model->limits().name;
  identity_.fingerprint = edge_.fingerprint;
  terms_ =
      std::make_shared<stream_terms>(stream_terms{request_.chat, identity_, request_.shape, request_.model});
  choices_.resize(request_.sequences.size() * request_.choices_a_sequence);
  const bool skips_special = request_.sequences.front().skip_special_tokens;
  for (std::uint32_t i = 0; i < choices_.size(); ++i) {
    choices_[i].reader = choice_reader(request_.output, *request_.model, skips_special);
    choices_[i].whole.index = i;
    choices_[i].whole.prompt = i / request_.num_choices;
  }
  totals_.used.has_prediction = so_far_.has_prediction = request_.has_prediction;
  if (request_.chat) ends_ = end_tokens(request_.sequences.front().stop);
  group_ = std::make_shared<generation_group>(edge_, executor_, weak_from_this(), who_.tenant, arrival_);
  const auto refused =
      group_->start(*request_.model, std::move(request_.sequences), pacing_of(request_, edge_.limits));
  if (refused) fail(*refused);
}

bool completion_session::congested(std::size_t sequence) const {
  if (!channel_) return false;
  if (request_.stream) return channel_->congested();
  if (kept_bytes() <= edge_.limits.kept_of_reply) return false;
  return channel_->congested() || sequence != num_passed_on_ / request_.choices_a_sequence;
}

void completion_session::on_writable() {
  const auto self = shared_from_this(); // the last piece ends the exchange, which releases the session
  if (reply_) send_pieces();
  if (group_) group_->on_writable();
}

void completion_session::on_idle() {
  if (channel_ && reply_ && group_ && !channel_->congested())
    return channel_->send("\n"); // whitespace between two choices
  if (!channel_ || !request_.stream || !group_) return;
  begin_stream();
  channel_->send(":\n\n");
}

void completion_session::on_shutdown() {
  if (channel_ && (!reply_ || group_)) fail(shutting_down()); // a reply that is being sent continues
}

void completion_session::on_disconnect() {
  channel_.reset();
  reply_.reset();
  if (group_ && group_->num_running() > 0) {
    ++edge_.metrics.disconnect_cancels;
    group_->cancel();
  }
  group_.reset();
}

void completion_session::close() {
  channel_.reset();
  reply_.reset();
  if (group_) group_->cancel();
  group_.reset();
}

void completion_session::fail(const wire::api_error& failure) {
  if (reply_) { // an incomplete reply cannot be followed by another one
    channel_->abandon();
  } else if (streaming_) {
    channel_->send(write_sse("", wire::to_json(failure)));
    channel_->finish();
  } else {
    channel_->reply(error_reply(failure, headers()));
  }
  close();
}

void completion_session::begin_stream() {
  if (streaming_) return;
  streaming_ = true;
  channel_->begin_stream(headers());
}

void completion_session::on_event(std::size_t sequence, const token_event& event) {
  if (!channel_) return;
  if (event.finish == finish_reason::error)
    return fail(wire::from_error(event.failure.value_or(error{errc::internal, ""})));
  const auto first = sequence * request_.choices_a_sequence;
  auto num_tokens = group_->num_tokens(sequence);
  if (!event.hypotheses.empty()) {
    num_tokens = tell_hypotheses(sequence, event);
  } else if (request_.chat && request_.shape.scores) {
    auto shown = event;
    shown.logprobs = ends_.scores_of_text(event);
    tell(first, shown);
  } else {
    tell(first, event);
  }
  if (event.finish == finish_reason::none) {
    if (choices_[first].reader.wants_no_more()) group_->stop(sequence, event);
    return begin_early();
  }
  add(totals_.used, event, group_->prompt_tokens(sequence), num_tokens, first % request_.num_choices == 0);
  for (std::size_t i = 0; i < request_.choices_a_sequence; ++i)
    totals_.used.reasoning_tokens += choices_[first + i].reader.num_reasoning_tokens();
  if (choices_.size() == 1) totals_.metrics = group_->metrics_of(sequence, event);
  for (std::size_t i = 0; i < request_.choices_a_sequence; ++i) choices_[first + i].ended = true;
  if (group_->num_running() == 0) return finish();
  begin_early();
}

std::uint32_t completion_session::tell_hypotheses(std::size_t sequence, const token_event& event) {
  std::uint32_t num_tokens = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(event.hypotheses.size(), request_.choices_a_sequence);
       ++i) {
    const auto& found = event.hypotheses[i];
    token_event part;
    part.tokens = found.tokens;
    part.text = found.text;
    part.finish = found.finish;
    num_tokens += static_cast<std::uint32_t>(found.tokens.size());
    tell(sequence * request_.choices_a_sequence + i, part);
  }
  return num_tokens;
}

void completion_session::tell(std::size_t choice, const token_event& event) {
  if (request_.stream) return stream_event(choice, event);
  keep_event(choice, event);
}

void completion_session::keep_event(std::size_t choice, const token_event& event) {
  auto& state = choices_[choice];
  auto& whole = state.whole;
  const auto before = whole.num_bytes();
  if (!std::exchange(state.opened, true) && request_.echo) {
    whole.prompt_text = request_.prompt_texts.at(choice / request_.num_choices);
    if (request_.shape.scores) whole.scores.append_without_score(prompt_of(choice).front());
  }
  whole.append(state.reader.read(event));
  whole.finish = state.reader.finish_of(event.finish);
  if (request_.shape.token_ids)
    whole.tokens.insert(whole.tokens.end(), event.tokens.begin(), event.tokens.end());
  if (request_.shape.scores) {
    // A long prompt is scored in several events before the first token.
    for (const auto& score : event.prompt_logprobs) whole.scores.append(score);
    for (const auto& score : event.logprobs) whole.scores.append(score);
  }
  if (request_.shape.trace && event.trace) whole.rounds.append(*event.trace);
  kept_bytes_ += whole.num_bytes() - before;
}

/// True if this is the choice's first chunk. Its prompt counts from then on.
bool completion_session::open(std::size_t choice) {
  if (std::exchange(choices_[choice].opened, true)) return false;
  if (choice % request_.num_choices == 0)
    so_far_.prompt_tokens += group_->prompt_tokens(choice / request_.choices_a_sequence);
  return true;
}

/// In a chat's stream the choices open in order: OpenAI's client appends the choices that it has not seen to
/// a list. A beam search, whose choices come at once, has fewer than were asked for at times.
void completion_session::open_choices_before(std::size_t choice) {
  if (!request_.chat || request_.choices_a_sequence != 1) return;
  for (std::size_t i = 0; i < choice; ++i)
    if (open(i)) send(chunk_of(i, token_event{}, {}, true));
}

/// If output is already waiting, an event with much text waits in the engine's form. It becomes text when its
/// turn comes.
void completion_session::send(stream_chunk chunk) {
  const bool has_many_words = request_.shape.scores || chunk.prompt_text || chunk.prompt;
  if (has_many_words && channel_->congested()) {
    if (auto text = write_chunk_later(terms_, std::move(chunk))) channel_->send(std::move(text));
  } else if (auto text = write_chunk_event(*terms_, chunk); !text.empty()) {
    channel_->send(std::move(text));
  }
}

void completion_session::stream_event(std::size_t choice, const token_event& event) {
  begin_stream();
  open_choices_before(choice);
  const bool opens = open(choice);
  auto& reader = choices_[choice].reader;
  const auto reasoned = reader.num_reasoning_tokens();
  auto items = reader.read(event);
  so_far_.reasoning_tokens += reader.num_reasoning_tokens() - reasoned;
  so_far_.completion_tokens += static_cast<std::uint32_t>(event.tokens.size());
  send(chunk_of(choice, event, std::move(items), opens));
}

stream_chunk completion_session::chunk_of(std::size_t choice, const token_event& event,
                                          wire::output_items items, bool opens) {
  auto& state = choices_[choice];
  stream_chunk chunk;
  chunk.index = state.whole.index;
  chunk.opens = opens;
  chunk.text_offset = state.text_offset;
  chunk.event = event;
  chunk.event.text = {};
  chunk.event.speculation.reset(); // for `generation_group::stop` alone
  chunk.event.timings.reset();
  chunk.event.finish = state.reader.finish_of(event.finish);
  chunk.items = std::move(items);
  chunk.has_calls = state.reader.has_calls();
  chunk.so_far = so_far_;
  if (opens && request_.shape.token_ids) chunk.prompt = prompt_of(choice);
  if (opens && request_.echo) {
    chunk.prompt_text = request_.prompt_texts.at(choice / request_.num_choices);
    if (request_.shape.scores) chunk.first_of_prompt = prompt_of(choice).front();
  }
  if (!request_.shape.scores || request_.chat) return chunk;
  const auto count = [&](token_id token) {
    state.text_offset += wire::count_code_points(request_.model->token_bytes(token));
  };
  if (chunk.first_of_prompt) count(*chunk.first_of_prompt);
  for (const auto& score : event.prompt_logprobs) count(score.token);
  for (const auto& score : event.logprobs) count(score.token);
  return chunk;
}

void completion_session::finish() {
  if (request_.stream) {
    if (request_.include_usage) {
      const auto chunk = request_.chat ? wire::chat_usage_chunk(identity_, totals_)
                                       : wire::completion_usage_chunk(identity_, totals_);
      channel_->send(write_sse("", chunk));
    }
    channel_->send(write_sse("", "[DONE]"));
    channel_->finish();
    close();
  } else {
    reply_whole();
  }
}

wire::reply_content completion_session::begun_reply() {
  wire::reply_content begun;
  begun.chat = request_.chat;
  begun.identity = identity_;
  begun.shape = request_.shape;
  begun.prompts = request_.prompts;
  return begun;
}

void completion_session::begin_early() {
  if (request_.stream) return;
  if (!reply_ && (kept_bytes_ <= edge_.limits.kept_of_reply || !choices_.front().ended)) return;
  if (!reply_) {
    reply_ = wire::whole_reply::open(
        begun_reply(), [&model = *request_.model](token_id token) { return model.token_bytes(token); });
    channel_->begin_pieces(headers());
  }
  pass_on();
  send_pieces();
}

void completion_session::pass_on() {
  for (; num_passed_on_ < choices_.size() && choices_[num_passed_on_].ended; ++num_passed_on_) {
    auto& state = choices_[num_passed_on_];
    kept_bytes_ -= state.whole.num_bytes();
    // A beam search may find fewer hypotheses than requested.
    if (state.opened || choices_.size() == 1) reply_->add(std::move(state.whole));
    state.whole = {};
  }
}

void completion_session::reply_whole() {
  const bool begun = reply_ != nullptr;
  if (!begun)
    reply_ = wire::whole_reply::open(
        begun_reply(), [&model = *request_.model](token_id token) { return model.token_bytes(token); });
  pass_on();
  reply_->complete(totals_);
  request_.prompts.clear();
  request_.prompt_texts.clear();
  group_.reset();
  if (begun) return send_pieces();
  auto first = reply_->next(longest_text);
  if (!reply_->at_end()) {
    channel_->begin_pieces(headers());
    channel_->send(std::move(first));
    return send_pieces();
  }
  http_reply reply;
  reply.body = std::move(first);
  reply.headers = headers();
  reply_.reset(); // nothing of the reply was sent
  channel_->reply(std::move(reply));
  close();
}

void completion_session::send_pieces() {
  while (!reply_->at_end()) {
    channel_->keep(reply_->num_bytes());
    if (channel_->congested()) return; // on_writable is called later
    auto piece = reply_->next(piece_bytes);
    if (piece.empty())
      return channel_->keep(0); // the next choice has not ended, so nothing waits for the client
    channel_->send(std::move(piece));
  }
  channel_->keep(0);
  channel_->finish();
  close();
}

} // namespace paceline::server
