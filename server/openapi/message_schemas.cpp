#include "server/openapi/reply_schemas.hpp"

namespace paceline::server {

const std::string_view message_schemas = R"schemas({
"message_error": {
  "type": "object", "required": ["type", "error"],
  "properties": {
    "type": {"const": "error"},
    "error": {
      "type": "object", "required": ["type", "message"],
      "properties": {
        "type": {
          "enum": [
            "invalid_request_error", "authentication_error", "permission_error", "not_found_error",
            "timeout_error", "request_too_large", "rate_limit_error", "overloaded_error", "api_error"
          ]
        },
        "message": {"type": "string"}
      }
    }
  }
},
"message_usage": {
  "type": "object", "description": "input_tokens are those that were not found in the prefix cache.",
  "required": ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens", "output_tokens_details"],
  "properties": {
    "input_tokens": @count, "cache_creation_input_tokens": @count, "cache_read_input_tokens": @count,
    "output_tokens": @count,
    "output_tokens_details": {
      "type": "object", "required": ["thinking_tokens"], "properties": {"thinking_tokens": @count}
    }
  }
},
"message_block": {
  "anyOf": [
    {
      "type": "object", "required": ["type", "text"],
      "properties": {"type": {"const": "text"}, "text": {"type": "string"}}
    },
    {
      "type": "object", "required": ["type", "signature", "thinking"],
      "properties": {"type": {"const": "thinking"}, "signature": {"const": ""}, "thinking": {"type": "string"}}
    },
    {
      "type": "object", "required": ["type", "id", "name", "input"],
      "properties": {
        "type": {"const": "tool_use"}, "id": {"type": "string"}, "name": {"type": "string"},
        "input": {"type": "object"}
      }
    }
  ]
},
"stop_reason": {"enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use", null]},
"message": {
  "type": "object", "required": ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"],
  "properties": {
    "id": {"type": "string"}, "type": {"const": "message"}, "role": {"const": "assistant"},
    "model": {"type": "string"}, "content": {"type": "array", "items": @message_block},
    "stop_reason": @stop_reason, "stop_sequence": {"type": ["string", "null"]}, "usage": @message_usage
  }
},
"message_delta": {
  "anyOf": [
    {
      "type": "object", "required": ["type", "text"],
      "properties": {"type": {"const": "text_delta"}, "text": {"type": "string"}}
    },
    {
      "type": "object", "required": ["type", "thinking"],
      "properties": {"type": {"const": "thinking_delta"}, "thinking": {"type": "string"}}
    },
    {
      "type": "object", "required": ["type", "partial_json"],
      "properties": {"type": {"const": "input_json_delta"}, "partial_json": {"type": "string"}}
    },
    {
      "type": "object", "description": "How the message ends.", "required": ["stop_reason", "stop_sequence"],
      "properties": {"stop_reason": @stop_reason, "stop_sequence": {"type": ["string", "null"]}}
    }
  ]
},
"message_event": {
  "type": "object", "description": "One event of a streamed message.", "required": ["type"],
  "properties": {
    "type": {
      "enum": [
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        "message_stop", "ping"
      ]
    },
    "message": @message, "index": @count, "content_block": @message_block, "delta": @message_delta,
    "usage": @message_usage
  }
},
"message_count": {"type": "object", "required": ["input_tokens"], "properties": {"input_tokens": @count}}
})schemas";

} // namespace paceline::server
