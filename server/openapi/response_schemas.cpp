#include "server/openapi/reply_schemas.hpp"

namespace paceline::server {

const std::string_view response_schemas = R"schemas({
"output_text": {
  "type": "object", "required": ["type", "text", "annotations", "logprobs"],
  "properties": {
    "type": {"const": "output_text"}, "text": {"type": "string"},
    "annotations": {"type": "array", "maxItems": 0}, "logprobs": {"type": "array", "items": @scored_token}
  }
},
"output_message": {
  "type": "object", "required": ["id", "type", "status", "role", "content"],
  "properties": {
    "id": {"type": "string"}, "type": {"const": "message"},
    "status": {"enum": ["in_progress", "completed", "incomplete"]}, "role": {"const": "assistant"},
    "content": {"type": "array", "items": @output_text}
  }
},
"reasoning_text": {
  "type": "object", "required": ["type", "text"],
  "properties": {"type": {"const": "reasoning_text"}, "text": {"type": "string"}}
},
"output_reasoning": {
  "type": "object", "required": ["id", "type", "status", "summary", "content"],
  "properties": {
    "id": {"type": "string"}, "type": {"const": "reasoning"},
    "status": {"enum": ["in_progress", "completed", "incomplete"]},
    "summary": {"type": "array", "maxItems": 0}, "content": {"type": "array", "items": @reasoning_text}
  }
},
"output_call": {
  "type": "object", "required": ["id", "type", "status", "call_id", "name", "arguments"],
  "properties": {
    "id": {"type": "string"}, "type": {"const": "function_call"},
    "status": {"enum": ["in_progress", "completed", "incomplete"]},
    "call_id": {"type": "string"}, "name": {"type": "string"}, "arguments": {"type": "string"}
  }
},
"output_item": {"anyOf": [@output_message, @output_reasoning, @output_call]},
"response": {
  "type": "object",
  "required": [
    "id", "object", "created_at", "status", "background", "error", "incomplete_details", "completed_at", "model", "output",
    "instructions", "max_output_tokens", "max_tool_calls", "parallel_tool_calls", "previous_response_id",
    "prompt_cache_key", "reasoning", "safety_identifier", "service_tier", "store", "temperature", "text",
    "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user", "metadata", "usage"
  ],
  "properties": {
    "id": {"type": "string"}, "object": {"const": "response"}, "created_at": @count,
    "status": {"enum": ["in_progress", "completed", "incomplete", "cancelled", "failed"]},
    "background": {"const": false},
    "error": {
      "type": ["object", "null"], "required": ["code", "message"],
      "properties": {
        "code": {"enum": ["server_error", "rate_limit_exceeded", "invalid_prompt"]}, "message": {"type": "string"},
        "paceline_code": {"type": "string"}
      }
    },
    "incomplete_details": {
      "type": ["object", "null"], "required": ["reason"],
      "properties": {"reason": {"const": "max_output_tokens"}}
    },
    "completed_at": {"type": ["integer", "null"]},
    "model": {"type": "string"}, "output": {"type": "array", "items": @output_item},
    "instructions": {"type": ["string", "null"]}, "max_output_tokens": {"type": ["integer", "null"]},
    "max_tool_calls": {"type": "null"}, "parallel_tool_calls": {"type": "boolean"},
    "previous_response_id": {"type": ["string", "null"]}, "prompt_cache_key": {"type": ["string", "null"]},
    "reasoning": {"type": "object", "properties": {"effort": {"type": ["string", "null"]}, "summary": {"type": "null"}}},
    "safety_identifier": {"type": ["string", "null"]}, "service_tier": {"const": "default"}, "store": {"type": "boolean"},
    "temperature": {"type": "number"},
    "text": {
      "type": "object", "required": ["format", "verbosity"],
      "properties": {"verbosity": {"const": "medium"}, "format": {"type": "object", "required": ["type"], "properties": {
        "type": {"enum": ["text", "json_object", "json_schema"]}, "name": {"type": ["string", "null"]},
        "description": {"type": ["string", "null"]}, "strict": {"type": ["boolean", "null"]}, "schema": {}
      }}}
    },
    "tool_choice": {
      "anyOf": [
        {"enum": ["auto", "none", "required"]},
        {"type": "object", "required": ["type", "name"], "properties": {"type": {"const": "function"}, "name": {"type": "string"}}}
      ]
    }, "tools": {"type": "array", "items": {"type": "object"}},
    "top_logprobs": @count, "top_p": {"type": "number"}, "truncation": {"const": "disabled"},
    "user": {"type": ["string", "null"]}, "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
    "usage": {"anyOf": [@response_usage, {"type": "null"}]}, "metrics": @metrics, "timings": @timings,
    "paceline": {"type": "object", "properties": {"token_ids": @token_ids}}
  }
},
"response_event": {
  "type": "object", "description": "One event of a response, over SSE or WebSocket.",
  "required": ["type", "sequence_number"],
  "properties": {
    "type": {
      "enum": [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.delta", "response.output_text.done", "response.reasoning_text.delta",
        "response.reasoning_text.done", "response.function_call_arguments.delta",
        "response.function_call_arguments.done", "response.content_part.done", "response.output_item.done",
        "response.completed", "response.incomplete", "response.failed", "paceline.round"
      ]
    },
    "sequence_number": @count, "stream_id": {"type": "string"}, "response": @response,
    "response_id": {"type": "string"}, "output_index": @count, "content_index": @count,
    "item_id": {"type": "string"}, "item": @output_item, "part": {"anyOf": [@output_text, @reasoning_text]},
    "delta": {"type": "string"}, "text": {"type": "string"}, "name": {"type": "string"},
    "arguments": {"type": "string"},
    "logprobs": {"type": "array", "items": @scored_token}, "token_index": @count, "token_ids": @token_ids,
    "round": @round
  }
},
"input_count": {
  "type": "object", "required": ["object", "input_tokens"],
  "properties": {"object": {"const": "response.input_tokens"}, "input_tokens": @count}
},
"deleted_response": {
  "type": "object", "required": ["id", "object", "deleted"],
  "properties": {"id": {"type": "string"}, "object": {"const": "response"}, "deleted": {"const": true}}
},
"input_item": {
  "type": "object", "required": ["id", "type", "status"],
  "properties": {
    "id": {"type": "string"}, "type": {"enum": ["message", "reasoning", "function_call", "function_call_output"]},
    "status": {"const": "completed"}, "role": {"enum": ["system", "user", "assistant"]},
    "content": {"type": "array", "items": @input_text}, "call_id": {"type": "string"}, "name": {"type": "string"},
    "arguments": {"type": "string"}, "output": {"type": "string"}, "summary": {"type": "array", "maxItems": 0}
  }
},
"input_text": {
  "type": "object", "required": ["type", "text"],
  "properties": {
    "type": {"enum": ["input_text", "output_text", "reasoning_text"]}, "text": {"type": "string"}, "annotations": {"type": "array", "maxItems": 0}
  }
},
"input_item_list": {
  "type": "object", "required": ["object", "data", "first_id", "last_id", "has_more"],
  "properties": {
    "object": {"const": "list"}, "data": {"type": "array", "items": @input_item}, "has_more": {"type": "boolean"},
    "first_id": {"type": ["string", "null"]}, "last_id": {"type": ["string", "null"]}
  }
}
})schemas";

} // namespace paceline::server
