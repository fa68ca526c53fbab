#include "protocol/wire/response_events.hpp"

#include "protocol/wire/json_view.hpp"
#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/response_items.hpp"

#include <utility>

namespace paceline::wire {

namespace {

using kind = response_part::kind;
using content = output_json::content;

std::vector<token_score> with_text(const std::vector<token_logprob>& scores, const token_speller& spell) {
  std::vector<token_score> spelt;
  for (const auto& score : scores) {
    spelt.push_back({spell(score.token), score.logprob, {}});
    for (const auto& [token, logprob] : score.top) spelt.back().top.emplace_back(spell(token), logprob);
  }
  return spelt;
}

/// The tools in the spelling of the Responses API, where a function's members are next to its type.
std::string flat_tools(const std::string& nested) {
  if (nested.empty()) return {};
  json_writer out;
  out.begin_array();
  for (const auto tool : json_view(nested).elements()) {
    out.begin_object().field("type", "function");
    for (const auto member : tool.members())
      if (member.is_named("function"))
        for (const auto inner : member.value.members()) out.key(inner.name()).raw(inner.value.source());
    out.end_object();
  }
  return out.end_array().take();
}

void write_tool_choice(json_writer& out, const tool_demand& demand) {
  out.key("tool_choice");
  if (demand.function.empty())
    out.value(demand.forbidden ? "none" : demand.required ? "required" : "auto");
  else
    out.begin_object().field("type", "function").field("name", demand.function).end_object();
}

/// OpenAI's names for failures of a response. Its typed clients accept no other ones.
std::string_view public_code(const api_error& failure) {
  if (failure.status == 429) return "rate_limit_exceeded";
  constexpr int deadline = 408, cancelled = 499; // nothing is wrong with the prompt
  const bool is_clients = failure.status < 500 && failure.status != deadline && failure.status != cancelled;
  return is_clients ? "invalid_prompt" : "server_error";
}

/// True if the text of an item has its own kind of event.
bool has_delta(const output_item& item) {
  return item.what == output_item::kind::reasoning || item.what == output_item::kind::text ||
         item.what == output_item::kind::call_arguments;
}

} // namespace

response_narrator::response_narrator(response_identity identity, const response_request& request,
                                     token_speller spell, bool only_text)
    : identity_(std::move(identity)),
      echo_(std::make_shared<response_echo>(
          response_echo{request.instructions, flat_tools(request.tools), request.text_format})),
      previous_response_id_(request.previous_response_id), metadata_(request.metadata),
      user_(request.fields.user), safety_identifier_(request.safety_identifier),
      prompt_cache_key_(request.prompt_cache_key), effort_(request.fields.effort.level),
      demand_(request.demand), max_output_tokens_(request.fields.max_tokens),
      num_top_logprobs_(request.num_logprobs.value_or(0)), temperature_(request.fields.sampling.temperature),
      top_p_(request.fields.sampling.top_p), store_(request.store),
      parallel_tool_calls_(request.parallel_tool_calls), request_generate_(request.generate),
      shows_scores_(request.num_logprobs.has_value()), shows_token_ids_(request.fields.return_token_ids),
      shows_positions_(shows_token_ids_ || request.options.resumable), only_text_(only_text),
      spell_(std::move(spell)), tokens_(std::make_shared<response_part>()) {
  tokens_->what = kind::tokens;
}

json_writer response_narrator::open_event(const std::string& type) const {
  json_writer out;
  out.begin_object().field("type", type).field("sequence_number", next_sequence_number_);
  if (!identity_.stream_id.empty()) out.field("stream_id", identity_.stream_id);
  return out;
}

response_event response_narrator::make(std::string type, json_writer& body) {
  return {std::move(type), body.end_object().take(), next_sequence_number_++, num_tokens_};
}

response_event response_narrator::make(std::string type, json_writer& body, marks marked) {
  auto event = make(std::move(type), body);
  output_json whole(std::move(event.json), std::move(marked), echo_);
  event.json = {};
  if (whole.is_short())
    event.json = whole.text();
  else
    event.long_json = std::move(whole);
  return event;
}

response_event response_narrator::state_event(const std::string& type) {
  auto out = open_event(type);
  marks marked;
  out.key("response");
  write_object(out, marked);
  return make(type, out, std::move(marked));
}

std::vector<response_event> response_narrator::open() {
  events out{state_event("response.created")};
  out.push_back(state_event("response.in_progress"));
  if (has_output() && only_text_) open_item(kind::message, out);
  return out;
}

void response_narrator::open_item(kind what, events& out) {
  const auto index = items_.size();
  // Ids are "msg_1", and "rs_1_2" for the third item.
  static constexpr const char* prefixes[] = {"msg_", "rs_", "fc_"};
  const auto number = identity_.message_id.substr(identity_.message_id.find('_') + 1);
  current_ = std::make_shared<response_part>();
  current_->what = what;
  current_->spell = spell_;
  current_->id = prefixes[static_cast<std::size_t>(what)] + number;
  if (index > 0) current_->id += "_" + std::to_string(index);
  if (what == kind::call) return; // announced when its name is known
  auto item = open_event("response.output_item.added");
  item.field("output_index", index).key("item");
  write_new_item(item, *current_);
  out.push_back(make("response.output_item.added", item));
  auto opened = open_event("response.content_part.added");
  opened.field("item_id", current_->id).field("output_index", index).field("content_index", 0).key("part");
  marks marked;
  write_content(opened, current_, marked);
  out.push_back(make("response.content_part.added", opened, std::move(marked)));
}

void response_narrator::close_item(bool whole, events& out) {
  if (!current_) return;
  current_->is_whole = whole && !is_open_call_;
  is_open_call_ = false;
  const part item = std::exchange(current_, nullptr);
  const auto index = items_.size();
  items_.push_back(item);
  const auto tell = [&](const std::string& type, const auto& write) {
    auto body = open_event(type);
    marks marked;
    write(body, marked);
    out.push_back(make(type, body, std::move(marked)));
  };
  const auto place = [&](json_writer& body) -> json_writer& {
    body.field("item_id", item->id).field("output_index", index);
    return item->what == kind::call ? body : body.field("content_index", 0);
  };
  tell(std::string(done_event(item->what)), [&](json_writer& body, marks& marked) {
    place(body);
    if (item->what == kind::call) body.field("name", item->name);
    mark(body, item->what == kind::call ? "arguments" : "text", content::text, item, marked);
    if (item->what == kind::message) mark(body, "logprobs", content::scores, item, marked);
  });
  if (item->what != kind::call)
    tell("response.content_part.done",
         [&](json_writer& body, marks& marked) { write_content(place(body).key("part"), item, marked); });
  tell("response.output_item.done", [&](json_writer& body, marks& marked) {
    write_item(body.field("output_index", index).key("item"), item, marked);
  });
}

void response_narrator::ensure_item(kind what, events& out) {
  if (current_ && current_->what == what) return;
  close_item(true, out);
  open_item(what, out);
}

std::vector<response_event> response_narrator::delta(const response_delta& added) {
  events out;
  next_scores_.insert(next_scores_.end(), added.scores.begin(), added.scores.end());
  next_tokens_.insert(next_tokens_.end(), added.tokens.begin(), added.tokens.end());
  if (shows_token_ids_)
    tokens_->tokens.insert(tokens_->tokens.end(), added.tokens.begin(), added.tokens.end());
  const auto num_before = num_tokens_;
  std::size_t num_deltas = 0;
  for (const auto& item : added.items) num_deltas += has_delta(item) ? 1 : 0;
  // Positions are reported even for tokens whose text is not complete, and for scores without text.
  const bool tells_nothing =
      added.items.empty() && (only_text_ || (current_ && current_->what == kind::message));
  if (tells_nothing && (!next_scores_.empty() || (shows_positions_ && !next_tokens_.empty()))) {
    add({}, true, out);
  }
  for (const auto& item : added.items) {
    if (has_delta(item)) --num_deltas;
    add(item, has_delta(item) && num_deltas == 0, out);
  }
  num_tokens_ = num_before + static_cast<std::uint32_t>(added.tokens.size());
  for (auto& event : out) event.end_token = num_tokens_;
  return out;
}

void response_narrator::add(const output_item& item, bool last, events& out) {
  switch (item.what) {
  case output_item::kind::reasoning:
    ensure_item(kind::reasoning, out);
    break;
  case output_item::kind::text:
    ensure_item(kind::message, out);
    break;
  case output_item::kind::call_begin: {
    close_item(true, out);
    open_item(kind::call, out);
    is_open_call_ = true;
    current_->name = item.text;
    current_->call_id = item.call_id;
    auto body = open_event("response.output_item.added");
    body.field("output_index", items_.size()).key("item");
    write_new_item(body, *current_);
    out.push_back(make("response.output_item.added", body));
    return;
  }
  case output_item::kind::call_arguments:
    break;
  case output_item::kind::call_end:
    is_open_call_ = false;
    return close_item(true, out);
  }
  add_delta(item.text, last, out);
}

/// `last` means that the delta is the last one of the round. It then carries the round's tokens.
void response_narrator::add_delta(const std::string& text, bool last, events& out) {
  const std::string type(delta_event(current_->what));
  auto body = open_event(type);
  body.field("item_id", current_->id).field("output_index", items_.size());
  if (current_->what != kind::call) body.field("content_index", 0);
  body.field("delta", text);
  if (current_->what == kind::message) {
    const auto scores = std::exchange(next_scores_, {});
    body.key("logprobs");
    write_token_scores(body, with_text(scores, spell_));
    if (shows_scores_)
      for (const auto& score : scores) current_->scores.append(score);
  }
  if (last) {
    const auto tokens = std::exchange(next_tokens_, {});
    if (shows_positions_) body.field("token_index", num_told_tokens_);
    if (shows_token_ids_) {
      body.key("token_ids");
      write_tokens(body, tokens);
    }
    num_told_tokens_ += static_cast<std::uint32_t>(tokens.size());
  }
  current_->text += text;
  out.push_back(make(type, body));
}

response_event response_narrator::round(const round_trace& round) {
  auto out = open_event("paceline.round");
  out.field("response_id", identity_.id).key("round");
  write_round(out, tell_round(round, spell_));
  return make("paceline.round", out);
}

std::vector<response_event> response_narrator::close(const response_outcome& outcome) {
  outcome_ = outcome;
  switch (outcome.finish) {
  case finish_reason::length:
    status_ = "incomplete";
    break;
  case finish_reason::cancelled:
    status_ = "cancelled";
    break;
  case finish_reason::error:
    status_ = "failed";
    break;
  default:
    status_ = "completed";
  }
  events out;
  if (has_output() && outcome.finish != finish_reason::error) {
    if (!current_ && items_.empty()) open_item(kind::message, out); // an empty answer is a message, too
    close_item(status_ == "completed", out);
  }
  // The protocol has three ends. A cancelled response is an incomplete response with status "cancelled".
  out.push_back(state_event(status_ == "failed"      ? "response.failed"
                            : status_ == "completed" ? "response.completed"
                                                     : "response.incomplete"));
  return out;
}

void response_narrator::write_request_echo(json_writer& out, marks& marked) const {
  if (echo_->instructions.empty())
    out.key("instructions").null();
  else
    mark(out, "instructions", content::instructions, nullptr, marked);
  out.key("max_output_tokens");
  max_output_tokens_ ? out.value(*max_output_tokens_) : out.null();
  out.key("max_tool_calls").null().field("parallel_tool_calls", parallel_tool_calls_);
  out.key("previous_response_id").string_or_null(previous_response_id_);
  out.key("prompt_cache_key").string_or_null(prompt_cache_key_);
  out.key("reasoning").begin_object();
  out.key("effort").string_or_null(effort_).key("summary").null().end_object();
  out.key("safety_identifier").string_or_null(safety_identifier_);
  out.field("service_tier", "default").field("store", store_).field("temperature", temperature_);
  out.key("text").begin_object();
  if (echo_->text_format.empty())
    out.key("format").begin_object().field("type", "text").end_object();
  else
    mark(out, "format", content::text_format, nullptr, marked);
  out.field("verbosity", "medium").end_object();
  write_tool_choice(out, demand_);
  if (echo_->tools.empty())
    out.key("tools").begin_array().end_array();
  else
    mark(out, "tools", content::tools, nullptr, marked);
  out.field("top_logprobs", num_top_logprobs_).field("top_p", top_p_).field("truncation", "disabled");
  out.key("user").string_or_null(user_).key("metadata").raw(metadata_);
}

void response_narrator::write_object(json_writer& out, marks& marked) const {
  out.begin_object()
      .field("id", identity_.id)
      .field("object", "response")
      .field("created_at", identity_.created);
  out.field("status", status_).field("background", false).key("error");
  if (outcome_.failure) {
    out.begin_object()
        .field("code", public_code(*outcome_.failure))
        .field("message", outcome_.failure->message)
        .field("paceline_code", outcome_.failure->code)
        .end_object();
  } else {
    out.null();
  }
  out.key("incomplete_details");
  if (status_ == "incomplete")
    out.begin_object().field("reason", "max_output_tokens").end_object();
  else
    out.null();
  out.key("completed_at");
  status_ == "completed" ? out.value(outcome_.ended) : out.null();
  out.field("model", identity_.model).key("output").begin_array();
  const bool finished = status_ == "completed" || status_ == "incomplete" || status_ == "cancelled";
  if (has_output() && finished)
    for (const auto& item : items_) write_item(out, item, marked);
  out.end_array();
  write_request_echo(out, marked);
  out.key("usage");
  if (outcome_.finish == finish_reason::none)
    out.null();
  else
    write_response_usage(out, outcome_.used);
  if (outcome_.metrics) {
    out.key("metrics");
    write_metrics(out, *outcome_.metrics);
    out.key("timings");
    write_timings(out, *outcome_.metrics);
  }
  if (shows_token_ids_ && finished) {
    out.key("paceline").begin_object();
    mark(out, "token_ids", content::tokens, tokens_, marked);
    out.end_object();
  }
  out.end_object();
}

output_json response_narrator::object() const {
  json_writer out;
  marks marked;
  write_object(out, marked);
  return {out.take(), std::move(marked), echo_};
}

output_json response_narrator::object_without_output(std::string status) const {
  auto other = *this;
  other.status_ = std::move(status);
  other.items_.clear();
  other.shows_token_ids_ = false; // this narrator goes on writing the ids
  return other.object();
}

chat_message response_narrator::answer() const {
  chat_message turn;
  turn.role = "assistant";
  for (const auto& item : items_) add_to_turn(*item, turn);
  if (!turn.content && turn.tool_calls.empty()) turn.content = "";
  return turn;
}

} // namespace paceline::wire
