#pragma once

#include "protocol/wire/client_requests.hpp"

#include <string_view>

namespace paceline::wire {

// Requests of Anthropic's Messages API, read into the same struct as those of /v1/chat/completions: `system`
// becomes the first message, blocks of text become content, `tool_use` a call, and `tool_result` a message of
// role tool.

/// POST /v1/messages.
parsed<chat_request> parse_messages_request(std::string_view body, const request_limits& limits);
/// POST /v1/messages/count_tokens: the same without `max_tokens`.
parsed<chat_request> parse_count_request(std::string_view body, const request_limits& limits);

} // namespace paceline::wire
