#include "protocol/wire/messages_events.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/json_writer.hpp"

#include <algorithm>
#include <utility>

namespace paceline::wire {

namespace {

using item_kind = output_item::kind;

/// Writes the members from "type" to "model".
json_writer& begin_message(json_writer& out, const message_identity& identity) {
  return out.begin_object()
      .field("id", identity.id)
      .field("type", "message")
      .field("role", "assistant")
      .field("model", identity.model);
}

std::string_view stop_reason(const message_ending& ending) {
  if (ending.finish == finish_reason::length) return "max_tokens";
  if (!ending.stop_sequence.empty()) return "stop_sequence";
  return ending.has_calls ? "tool_use" : "end_turn";
}

void write_stop(json_writer& out, const message_ending& ending) {
  out.field("stop_reason", stop_reason(ending)).key("stop_sequence").string_or_null(ending.stop_sequence);
}

/// Anthropic's input_tokens do not include tokens that were found in a cache.
void write_message_usage(json_writer& out, const usage& used) {
  out.begin_object()
      .field("input_tokens", used.prompt_tokens - std::min(used.cached_tokens, used.prompt_tokens))
      .field("cache_creation_input_tokens", 0)
      .field("cache_read_input_tokens", used.cached_tokens)
      .field("output_tokens", used.completion_tokens);
  out.key("output_tokens_details")
      .begin_object()
      .field("thinking_tokens", used.reasoning_tokens)
      .end_object();
  out.end_object();
}

/// Begins a block whose text or input follows.
json_writer& begin_block(json_writer& out, const output_item& item) {
  out.begin_object();
  if (item.what == item_kind::text) return out.field("type", "text");
  if (item.what == item_kind::reasoning) return out.field("type", "thinking").field("signature", "");
  return out.field("type", "tool_use").field("id", item.call_id).field("name", item.text);
}

/// The input of a call, which is an object. If the arguments are none, as when the token limit truncated
/// them, the object is empty.
std::string input_of(std::string_view arguments) {
  constexpr std::size_t max_depth = 1024; // a model may nest deeper than a request's body may
  const auto object = parse_object(arguments, {arguments.size(), max_depth});
  return object ? compact(*object) : "{}";
}

void write_whole_blocks(json_writer& out, const output_items& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto& item = items[i];
    switch (item.what) {
    case item_kind::reasoning:
      begin_block(out, item).field("thinking", item.text).end_object();
      break;
    case item_kind::text:
      begin_block(out, item).field("text", item.text).end_object();
      break;
    case item_kind::call_begin: {
      const bool has_arguments = i + 1 < items.size() && items[i + 1].what == item_kind::call_arguments;
      begin_block(out, item)
          .key("input")
          .raw(has_arguments ? input_of(items[i + 1].text) : "{}")
          .end_object();
      break;
    }
    case item_kind::call_arguments:
    case item_kind::call_end:
      break;
    }
  }
}

/// The `error.type` for a status.
std::string_view error_type(int status) {
  switch (status) {
  case 401:
    return "authentication_error";
  case 403:
    return "permission_error";
  case 404:
    return "not_found_error";
  case 408:
    return "timeout_error";
  case 413:
    return "request_too_large";
  case 429:
    return "rate_limit_error";
  case 503:
    return "overloaded_error";
  default:
    return status < 500 ? "invalid_request_error" : "api_error";
  }
}

} // namespace

message_event message_stream::open(std::uint32_t prompt_tokens) const {
  json_writer out;
  out.begin_object().field("type", "message_start").key("message");
  begin_message(out, identity_).key("content").begin_array().end_array();
  out.key("stop_reason").null().key("stop_sequence").null();
  usage so_far;
  so_far.prompt_tokens = prompt_tokens;
  write_message_usage(out.key("usage"), so_far);
  return {"message_start", out.end_object().end_object().take()};
}

void message_stream::begin_block(const output_item& first, events& out) {
  json_writer body;
  body.begin_object().field("type", "content_block_start").field("index", num_blocks_).key("content_block");
  wire::begin_block(body, first);
  if (first.what == item_kind::call_begin)
    body.key("input").begin_object().end_object();
  else
    body.field(first.what == item_kind::text ? "text" : "thinking", "");
  out.push_back({"content_block_start", body.end_object().end_object().take()});
  open_ = first.what;
}

void message_stream::end_block(events& out) {
  if (!std::exchange(open_, std::nullopt)) return;
  json_writer body;
  body.begin_object().field("type", "content_block_stop").field("index", num_blocks_++);
  out.push_back({"content_block_stop", body.end_object().take()});
}

std::vector<message_event> message_stream::add(const output_items& items) {
  struct delta {
    const char* type;
    const char* member;
  };
  events out;
  const auto tell = [&](const output_item& item, delta what) {
    json_writer body;
    body.begin_object().field("type", "content_block_delta").field("index", num_blocks_).key("delta");
    body.begin_object().field("type", what.type).field(what.member, item.text).end_object();
    out.push_back({"content_block_delta", body.end_object().take()});
  };
  for (const auto& item : items) {
    switch (item.what) {
    case item_kind::reasoning:
    case item_kind::text:
      if (open_ != item.what) {
        end_block(out);
        begin_block(item, out);
      }
      tell(item,
           item.what == item_kind::text ? delta{"text_delta", "text"} : delta{"thinking_delta", "thinking"});
      break;
    case item_kind::call_begin:
      end_block(out);
      begin_block(item, out);
      break;
    case item_kind::call_arguments:
      tell(item, {"input_json_delta", "partial_json"});
      break;
    case item_kind::call_end:
      end_block(out);
      break;
    }
  }
  return out;
}

std::vector<message_event> message_stream::close(const message_ending& ending) {
  events out;
  end_block(out);
  json_writer body;
  body.begin_object().field("type", "message_delta").key("delta").begin_object();
  write_stop(body, ending);
  write_message_usage(body.end_object().key("usage"), ending.used);
  out.push_back({"message_delta", body.end_object().take()});
  out.push_back({"message_stop", R"({"type":"message_stop"})"});
  return out;
}

std::string whole_message(const message_identity& identity, const output_items& items,
                          const message_ending& ending) {
  json_writer out;
  begin_message(out, identity).key("content").begin_array();
  write_whole_blocks(out, items);
  out.end_array();
  write_stop(out, ending);
  write_message_usage(out.key("usage"), ending.used);
  return out.end_object().take();
}

std::string to_message_error(const api_error& failure) {
  json_writer out;
  out.begin_object().field("type", "error").key("error").begin_object();
  // Clients compact the conversation if they find Anthropic's words.
  const bool is_too_long = failure.code == "context_length_exceeded" && failure.param == "messages";
  out.field("type", error_type(failure.status))
      .field("message", (is_too_long ? "prompt is too long: " : "") + failure.message);
  return out.end_object().end_object().take();
}

} // namespace paceline::wire
