#include "protocol/wire/completion_replies.hpp"

#include "protocol/wire/json_writer.hpp"

#include <algorithm>

namespace paceline::wire {

namespace {

json_writer opened(const reply_identity& identity, std::string_view object) {
  json_writer out;
  open_reply(out, identity, object);
  return out;
}

void write_finish(json_writer& out, const reply_choice& choice) {
  out.key("finish_reason").string_or_null(finish_name(choice.finish, choice.has_calls));
}

std::string joined(const output_items& items, output_item::kind what) {
  std::string text;
  for (const auto& item : items)
    if (item.what == what) text += item.text;
  return text;
}

/// Writes one element for each call, with what these items add to the call.
void write_call_deltas(json_writer& out, const output_items& items) {
  const auto is_of_call = [](const output_item& item) {
    return item.what == output_item::kind::call_begin || item.what == output_item::kind::call_arguments;
  };
  if (std::none_of(items.begin(), items.end(), is_of_call)) return;
  out.key("tool_calls").begin_array();
  for (std::size_t i = 0; i < items.size();) {
    if (!is_of_call(items[i])) {
      ++i;
      continue;
    }
    const auto call = items[i].call;
    out.begin_object().field("index", call);
    if (items[i].what == output_item::kind::call_begin)
      out.field("id", items[i].call_id).field("type", "function");
    out.key("function").begin_object();
    if (items[i].what == output_item::kind::call_begin) out.field("name", items[i++].text);
    std::string arguments;
    for (; i < items.size() && items[i].call == call && items[i].what == output_item::kind::call_arguments;
         ++i)
      arguments += items[i].text;
    out.field("arguments", arguments).end_object().end_object();
  }
  out.end_array();
}

/// Writes what the items add to a message.
void write_delta(json_writer& out, const reply_choice& choice) {
  out.begin_object();
  const auto reasoning = joined(choice.items, output_item::kind::reasoning);
  if (!reasoning.empty()) out.field("reasoning_content", reasoning);
  const auto text = joined(choice.items, output_item::kind::text);
  const bool is_empty = choice.items.empty() && choice.finish == finish_reason::none;
  if (!text.empty() || is_empty) out.field("content", text);
  write_call_deltas(out, choice.items);
  out.end_object();
}

void write_extensions(json_writer& out, const reply_shape& shape, const reply_choice& choice) {
  if (shape.token_ids) {
    out.key("token_ids");
    write_tokens(out, choice.tokens);
  }
  if (shape.trace && !choice.rounds.empty()) {
    out.key("paceline").begin_object().key("rounds").begin_array();
    for (const auto& round : choice.rounds) write_round(out, round);
    out.end_array().end_object();
  }
}

void write_prompt_ids(json_writer& out, const std::vector<token_id>& prompt) {
  out.key("prompt_token_ids");
  write_tokens(out, prompt);
}

void write_stream_usage(json_writer& out, const reply_shape& shape, const usage& so_far) {
  if (shape.continuous_usage) {
    out.key("usage");
    write_usage(out, so_far);
  } else if (shape.usage_in_stream) {
    out.key("usage").null();
  }
}

void write_completion_choice(json_writer& out, const reply_shape& shape, const reply_choice& choice,
                             const std::vector<token_id>* prompt) {
  out.begin_object()
      .field("index", choice.index)
      .field("text", joined(choice.items, output_item::kind::text));
  out.key("logprobs");
  if (shape.scores)
    write_legacy_logprobs(out, choice.scores, choice.text_offset);
  else
    out.null();
  write_finish(out, choice);
  write_extensions(out, shape, choice);
  if (prompt != nullptr) write_prompt_ids(out, *prompt);
  out.end_object();
}

void write_chat_logprobs(json_writer& out, const reply_shape& shape, const reply_choice& choice) {
  out.key("logprobs");
  if (!shape.scores) {
    out.null();
    return;
  }
  out.begin_object().key("content");
  write_token_scores(out, choice.scores);
  out.key("refusal").null().end_object();
}

std::string usage_chunk(const reply_identity& identity, std::string_view object, const reply_totals& totals) {
  auto out = opened(identity, object);
  out.key("choices").begin_array().end_array();
  write_totals(out, totals);
  return out.end_object().take();
}

} // namespace

std::string_view finish_name(finish_reason reason, bool has_calls) noexcept {
  return reason == finish_reason::stop && has_calls ? "tool_calls" : to_string(reason);
}

void open_reply(json_writer& out, const reply_identity& identity, std::string_view object) {
  out.begin_object().field("id", identity.id).field("object", object).field("created", identity.created);
  out.field("model", identity.model).field("system_fingerprint", identity.fingerprint);
}

void write_totals(json_writer& out, const reply_totals& totals) {
  out.key("usage");
  write_usage(out, totals.used);
  if (!totals.metrics) return;
  out.key("metrics");
  write_metrics(out, *totals.metrics);
  out.key("timings");
  write_timings(out, *totals.metrics);
}

std::string completion_chunk(const reply_identity& identity, const reply_shape& shape,
                             const reply_choice& choice, const std::vector<token_id>* prompt,
                             const usage& so_far) {
  auto out = opened(identity, "text_completion");
  out.key("choices").begin_array();
  write_completion_choice(out, shape, choice, prompt);
  out.end_array();
  write_stream_usage(out, shape, so_far);
  return out.end_object().take();
}

std::string completion_usage_chunk(const reply_identity& identity, const reply_totals& totals) {
  return usage_chunk(identity, "text_completion", totals);
}

std::string chat_opening_chunk(const reply_identity& identity, const reply_shape& shape, std::uint32_t index,
                               const std::vector<token_id>* prompt, const usage& so_far) {
  auto out = opened(identity, "chat.completion.chunk");
  out.key("choices").begin_array().begin_object().field("index", index).key("delta").begin_object();
  out.field("role", "assistant").field("content", "").end_object();
  out.key("logprobs").null().key("finish_reason").null().end_object().end_array();
  if (prompt != nullptr) write_prompt_ids(out, *prompt);
  write_stream_usage(out, shape, so_far);
  return out.end_object().take();
}

std::string chat_chunk(const reply_identity& identity, const reply_shape& shape, const reply_choice& choice,
                       const usage& so_far) {
  auto out = opened(identity, "chat.completion.chunk");
  out.key("choices").begin_array().begin_object().field("index", choice.index).key("delta");
  write_delta(out, choice);
  if (choice.scores.empty())
    out.key("logprobs").null();
  else
    write_chat_logprobs(out, shape, choice);
  write_finish(out, choice);
  write_extensions(out, shape, choice);
  out.end_object().end_array();
  write_stream_usage(out, shape, so_far);
  return out.end_object().take();
}

std::string chat_usage_chunk(const reply_identity& identity, const reply_totals& totals) {
  return usage_chunk(identity, "chat.completion.chunk", totals);
}

} // namespace paceline::wire
