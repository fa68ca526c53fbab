#include "protocol/wire/response_events.hpp"

#include "protocol/wire/json_writer.hpp"

#include <utility>

namespace paceline::wire {

namespace {

/// Marks the position of a member whose value is part of the output.
void mark(json_writer& out, std::string_view name, output_json::content what,
          std::vector<output_json::mark>& marked) {
  out.key(name).raw("");
  marked.push_back({out.size(), what});
}

std::vector<token_score> with_text(const std::vector<token_logprob>& scores, const token_speller& spell) {
  std::vector<token_score> spelt;
  for (const auto& score : scores) {
    spelt.push_back({spell(score.token), score.logprob, {}});
    for (const auto& [token, logprob] : score.top) spelt.back().top.emplace_back(spell(token), logprob);
  }
  return spelt;
}

} // namespace

response_narrator::response_narrator(response_identity identity, const response_request& request,
                                     token_speller spell)
    : identity_(std::move(identity)),
      echo_(std::make_shared<response_echo>(response_echo{request.instructions, request.tools})),
      previous_response_id_(request.previous_response_id), metadata_(request.metadata),
      max_output_tokens_(request.fields.max_tokens), num_top_logprobs_(request.num_logprobs.value_or(0)),
      temperature_(request.fields.sampling.temperature), top_p_(request.fields.sampling.top_p),
      store_(request.store), request_generate_(request.generate),
      shows_scores_(request.num_logprobs.has_value()), shows_token_ids_(request.fields.return_token_ids),
      shows_positions_(shows_token_ids_ || request.options.resumable),
      output_(std::make_shared<response_output>()) {
  output_->spell = std::move(spell);
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
  output_json whole(std::move(event.json), std::move(marked), output_, echo_);
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
  std::vector<response_event> events{state_event("response.created")};
  events.push_back(state_event("response.in_progress"));
  if (!has_output()) return events;
  auto item = open_event("response.output_item.added");
  item.field("output_index", 0).key("item");
  item.begin_object()
      .field("id", identity_.message_id)
      .field("type", "message")
      .field("status", "in_progress");
  item.field("role", "assistant").key("content").begin_array().end_array().end_object();
  events.push_back(make("response.output_item.added", item));
  auto part = open_event("response.content_part.added");
  part.field("item_id", identity_.message_id).field("output_index", 0).field("content_index", 0).key("part");
  marks marked;
  write_part(part, marked);
  events.push_back(make("response.content_part.added", part, std::move(marked)));
  return events;
}

response_event response_narrator::delta(const response_delta& added) {
  auto out = open_event("response.output_text.delta");
  out.field("item_id", identity_.message_id).field("output_index", 0).field("content_index", 0);
  out.field("delta", added.text).key("logprobs");
  write_token_scores(out, with_text(added.scores, output_->spell));
  if (shows_positions_) out.field("token_index", num_tokens_);
  if (shows_token_ids_) {
    out.key("token_ids");
    write_tokens(out, added.tokens);
    output_->tokens.insert(output_->tokens.end(), added.tokens.begin(), added.tokens.end());
  }
  output_->text += added.text;
  if (shows_scores_)
    for (const auto& score : added.scores) output_->scores.append(score);
  num_tokens_ += static_cast<std::uint32_t>(added.tokens.size());
  return make("response.output_text.delta", out);
}

response_event response_narrator::round(const round_trace& round) {
  auto out = open_event("paceline.round");
  out.field("response_id", identity_.id).key("round");
  write_round(out, round);
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
  std::vector<response_event> events;
  if (has_output() && outcome.finish != finish_reason::error) {
    const auto done = [&](const std::string& type, const auto& write) {
      auto out = open_event(type);
      marks marked;
      write(out, marked);
      events.push_back(make(type, out, std::move(marked)));
    };
    const auto place = [&](json_writer& out) -> json_writer& {
      return out.field("item_id", identity_.message_id).field("output_index", 0).field("content_index", 0);
    };
    done("response.output_text.done", [&](json_writer& out, marks& marked) {
      place(out);
      mark(out, "text", output_json::content::text, marked);
      mark(out, "logprobs", output_json::content::scores, marked);
    });
    done("response.content_part.done",
         [&](json_writer& out, marks& marked) { write_part(place(out).key("part"), marked); });
    done("response.output_item.done", [&](json_writer& out, marks& marked) {
      write_item(out.field("output_index", 0).key("item"), marked);
    });
  }
  // The protocol has three endings; a cancelled response is an incomplete one with status "cancelled".
  events.push_back(state_event(status_ == "failed"      ? "response.failed"
                               : status_ == "completed" ? "response.completed"
                                                        : "response.incomplete"));
  return events;
}

void response_narrator::write_part(json_writer& out, marks& marked) {
  out.begin_object().field("type", "output_text");
  mark(out, "text", output_json::content::text, marked);
  out.key("annotations").begin_array().end_array();
  mark(out, "logprobs", output_json::content::scores, marked);
  out.end_object();
}

void response_narrator::write_item(json_writer& out, marks& marked) const {
  out.begin_object().field("id", identity_.message_id).field("type", "message");
  out.field("status", status_ == "completed" ? "completed" : "incomplete").field("role", "assistant");
  out.key("content").begin_array();
  write_part(out, marked);
  out.end_array().end_object();
}

void response_narrator::write_request_echo(json_writer& out, marks& marked) const {
  if (echo_->instructions.empty())
    out.key("instructions").null();
  else
    mark(out, "instructions", output_json::content::instructions, marked);
  out.key("max_output_tokens");
  max_output_tokens_ ? out.value(*max_output_tokens_) : out.null();
  out.key("max_tool_calls").null().field("parallel_tool_calls", true);
  out.key("previous_response_id").string_or_null(previous_response_id_);
  out.key("prompt_cache_key")
      .null()
      .key("reasoning")
      .begin_object()
      .key("effort")
      .null()
      .key("summary")
      .null()
      .end_object();
  out.key("safety_identifier").null().field("service_tier", "default").field("store", store_);
  out.field("temperature", temperature_);
  out.key("text").begin_object().key("format").begin_object().field("type", "text").end_object().end_object();
  out.field("tool_choice", "auto");
  if (echo_->tools.empty())
    out.key("tools").begin_array().end_array();
  else
    mark(out, "tools", output_json::content::tools, marked);
  out.field("top_logprobs", num_top_logprobs_).field("top_p", top_p_).field("truncation", "disabled");
  out.key("user").null().key("metadata").raw(metadata_);
}

void response_narrator::write_object(json_writer& out, marks& marked) const {
  out.begin_object()
      .field("id", identity_.id)
      .field("object", "response")
      .field("created_at", identity_.created);
  out.field("status", status_).field("background", false).key("error");
  if (outcome_.failure) {
    out.begin_object()
        .field("code", outcome_.failure->code)
        .field("message", outcome_.failure->message)
        .end_object();
  } else {
    out.null();
  }
  out.key("incomplete_details");
  if (status_ == "incomplete")
    out.begin_object().field("reason", "max_output_tokens").end_object();
  else if (status_ == "cancelled")
    out.begin_object().field("reason", "cancelled").end_object();
  else
    out.null();
  out.field("model", identity_.model).key("output").begin_array();
  const bool finished = status_ == "completed" || status_ == "incomplete" || status_ == "cancelled";
  if (has_output() && finished) write_item(out, marked);
  out.end_array();
  write_request_echo(out, marked);
  out.key("usage");
  if (status_ == "in_progress")
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
    mark(out, "token_ids", output_json::content::tokens, marked);
    out.end_object();
  }
  out.end_object();
}

output_json response_narrator::object() const {
  json_writer out;
  marks marked;
  write_object(out, marked);
  return {out.take(), std::move(marked), output_, echo_};
}

} // namespace paceline::wire
