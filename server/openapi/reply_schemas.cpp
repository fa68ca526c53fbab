#include "server/openapi/reply_schemas.hpp"

namespace paceline::server {

const std::string_view reply_schemas = R"schemas({
"openapi": {"type": "object", "required": ["openapi", "info", "paths", "components"]},
"count": {"type": "integer", "minimum": 0},
"token_ids": {"type": "array", "items": @token_id},
"token_texts": {
  "type": "array", "items": {"type": "string"},
  "description": "Each token decoded alone; one that is part of a character as bytes:\\xe2\\x80."
},
"error_object": {
  "type": "object", "required": ["message", "type", "param", "code"],
  "properties": {
    "message": {"type": "string"}, "type": {"type": "string"},
    "param": {"type": ["string", "null"], "description": "The field that is invalid, as messages[2].content."},
    "code": {"type": ["string", "null"]}
  }
},
"error": {"type": "object", "required": ["error"], "properties": {"error": @error_object}},
"unready": {
  "type": "object", "required": ["error"],
  "description": "The other members are there while models are being loaded.",
  "properties": {
    "error": @error_object,
    "status": {"const": "loading"},
    "progress": {"type": "number", "minimum": 0, "maximum": 1, "description": "Share of all bytes that has been read."},
    "parts": {
      "type": "array",
      "items": {
        "type": "object", "required": ["model", "bytes_read", "num_bytes"],
        "properties": {
          "model": {"type": "string"},
          "drafter": {"type": "string", "description": "Of the model, if the weights are a drafter's."},
          "bytes_read": @count, "num_bytes": @count
        }
      }
    }
  }
},
"health": {"type": "object", "required": ["status"], "properties": {"status": {"const": "ok"}}},
"snapshot": {
  "type": "object", "required": ["object", "number", "state", "load_progress", "num_streams", "streams"],
  "properties": {
    "object": {"const": "paceline.snapshot"},
    "number": @count,
    "state": {"enum": ["loading", "serving", "draining"]},
    "load_progress": {"type": "number", "minimum": 0, "maximum": 1, "description": "Share of the models' bytes that has been read; 1 once they serve."},
    "num_streams": {"type": "integer", "minimum": 0, "description": "Generations that run or wait."},
    "streams": {
      "type": "array", "maxItems": 64, "description": "The oldest of them.",
      "items": {
        "type": "object", "required": ["model", "age_ms", "prompt_tokens", "output_tokens", "rounds"],
        "properties": {
          "model": {"type": "string"},
          "age_ms": {"type": "integer", "minimum": 0, "description": "Since the request arrived."},
          "prompt_tokens": @count, "output_tokens": @count,
          "rounds": {"type": "integer", "minimum": 0, "description": "That committed tokens of it."}
        }
      }
    }
  }
},
"guarantee": {
  "enum": ["tokens", "distribution", "up_to_rounding", "lossy"],
  "description": "How close the output is to plain decoding; absent from usage if it is the same tokens."
},
"usage": {
  "type": "object",
  "required": ["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details"],
  "properties": {
    "prompt_tokens": @count, "completion_tokens": @count, "total_tokens": @count,
    "prompt_tokens_details": @input_details, "completion_tokens_details": @output_details
  }
},
"response_usage": {
  "type": "object",
  "required": ["input_tokens", "output_tokens", "total_tokens", "input_tokens_details", "output_tokens_details"],
  "properties": {
    "input_tokens": @count, "output_tokens": @count, "total_tokens": @count,
    "input_tokens_details": @input_details, "output_tokens_details": @output_details
  }
},
"input_details": {"type": "object", "required": ["cached_tokens"], "properties": {"cached_tokens": @count, "cache_write_tokens": @count}},
"output_details": {
  "type": "object", "required": ["reasoning_tokens"],
  "properties": {
    "reasoning_tokens": @count, "accepted_prediction_tokens": @count,
    "rejected_prediction_tokens": @count, "guarantee": @guarantee
  }
},
"metrics": {
  "type": "object", "description": "Times in milliseconds; of requests with one sequence.",
  "required": ["time_to_first_token_ms", "queue_time_ms", "generation_time_ms", "mean_itl_ms", "tokens_per_second"],
  "properties": {
    "time_to_first_token_ms": {"type": "number"}, "queue_time_ms": {"type": "number"},
    "generation_time_ms": {"type": "number"}, "mean_itl_ms": {"type": "number"},
    "tokens_per_second": {"type": "number"},
    "explanation": {"type": "string", "description": "Why the request was not faster; where a draft was possible."},
    "speculative_decoding": {
      "type": "object",
      "required": [
        "mean_acceptance_length", "draft_acceptance_rate", "acceptance_histogram", "num_spec_steps",
        "num_accepted_draft_tokens", "num_draft_tokens", "num_spec_tokens", "num_full_spec_steps", "guarantee"
      ],
      "properties": {
        "mean_acceptance_length": {"type": "number", "minimum": 1},
        "draft_acceptance_rate": {"type": "number", "minimum": 0, "maximum": 1},
        "acceptance_histogram": {"type": "array", "items": @count}, "num_spec_steps": @count,
        "num_accepted_draft_tokens": @count, "num_draft_tokens": @count, "num_spec_tokens": @count,
        "num_full_spec_steps": @count, "guarantee": @guarantee
      }
    }
  }
},
"timings": {
  "type": "object", "description": "llama-server's names.",
  "required": [
    "prompt_n", "prompt_ms", "prompt_per_second", "predicted_n", "predicted_ms", "predicted_per_second",
    "cache_n"
  ],
  "properties": {
    "prompt_n": @count, "prompt_ms": {"type": "number"}, "prompt_per_second": {"type": "number"},
    "predicted_n": @count, "predicted_ms": {"type": "number"}, "predicted_per_second": {"type": "number"},
    "cache_n": @count, "draft_n": @count, "draft_n_accepted": @count
  }
},
"legacy_logprobs": {
  "type": ["object", "null"], "required": ["tokens", "token_logprobs", "top_logprobs", "text_offset"],
  "properties": {
    "tokens": {"type": "array", "items": {"type": "string"}},
    "token_logprobs": {"type": "array", "items": {"type": ["number", "null"]}},
    "top_logprobs": {"type": "array", "items": {"type": ["object", "null"], "additionalProperties": {"type": "number"}}},
    "text_offset": {"type": "array", "items": @count}
  }
},
"scored_token": {
  "type": "object", "required": ["token", "logprob", "bytes"],
  "properties": {
    "token": {"type": "string"}, "logprob": {"type": "number"},
    "bytes": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}},
    "top_logprobs": {"type": "array", "items": @scored_token}
  }
},
"chat_logprobs": {
  "type": ["object", "null"], "required": ["content", "refusal"],
  "properties": {"content": {"type": "array", "items": @scored_token}, "refusal": {"type": "null"}}
},
"round": {
  "type": "object", "description": "What one round did.",
  "required": [
    "round", "base_length", "drafter", "draft_tokens", "draft_texts", "parents", "accepted", "num_accepted", "bonus",
    "tokens", "token_texts", "start_us", "end_us"
  ],
  "properties": {
    "round": @count, "base_length": @count, "drafter": {"type": "string"}, "draft_tokens": @token_ids,
    "draft_texts": @token_texts, "parents": {"type": "array", "items": {"type": "integer", "minimum": -1}},
    "accepted": {"type": "array", "items": @count}, "num_accepted": @count, "bonus": {"type": "boolean"},
    "tokens": @token_ids, "token_texts": @token_texts, "start_us": @count, "end_us": @count,
    "draft_start_us": @count, "draft_end_us": @count,
    "auto": {
      "type": "object", "required": ["plain_to_measure", "options"],
      "properties": {
        "plain_to_measure": {"type": "boolean"},
        "options": {
          "type": "array",
          "items": {
            "type": "object", "required": ["drafter", "num_draft_tokens", "expected_tokens", "cost"],
            "properties": {
              "drafter": {"type": "string"}, "num_draft_tokens": @count,
              "expected_tokens": {"type": "number"}, "cost": {"type": "number"}
            }
          }
        }
      }
    }
  }
},
"rounds": {"type": "object", "required": ["rounds"], "properties": {"rounds": {"type": "array", "items": @round}}},
"finish_reason": {"enum": ["stop", "length", "tool_calls", "abort", "error", null]},
"completion_choice": {
  "type": "object", "required": ["index", "text", "logprobs", "finish_reason"],
  "properties": {
    "index": @count, "text": {"type": "string"}, "logprobs": @legacy_logprobs,
    "finish_reason": @finish_reason, "token_ids": @token_ids, "prompt_token_ids": @token_ids,
    "paceline": @rounds
  }
},
"completion": {
  "type": "object", "required": ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"],
  "properties": {
    "id": {"type": "string"}, "object": {"const": "text_completion"}, "created": @count,
    "model": {"type": "string"}, "system_fingerprint": {"type": "string"},
    "choices": {"type": "array", "minItems": 1, "items": @completion_choice}, "usage": @usage,
    "metrics": @metrics, "timings": @timings
  }
},
"completion_chunk": {
  "type": "object", "description": "One event of a streamed completion. The last ones have no choice.",
  "required": ["id", "object", "created", "model", "system_fingerprint", "choices"],
  "properties": {
    "id": {"type": "string"}, "object": {"const": "text_completion"}, "created": @count,
    "model": {"type": "string"}, "system_fingerprint": {"type": "string"},
    "choices": {"type": "array", "items": @completion_choice},
    "usage": {"anyOf": [@usage, {"type": "null"}]}, "metrics": @metrics, "timings": @timings
  }
},
"tool_call": {
  "type": "object", "required": ["id", "type", "function"],
  "properties": {
    "id": {"type": "string"}, "type": {"const": "function"},
    "function": {
      "type": "object", "required": ["name", "arguments"],
      "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}}
    }
  }
},
"tool_call_delta": {
  "type": "object", "description": "More of a call; its first delta has id, type and name.",
  "required": ["index", "function"],
  "properties": {
    "index": @count, "id": {"type": "string"}, "type": {"const": "function"},
    "function": {
      "type": "object", "required": ["arguments"],
      "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}}
    }
  }
},
"chat_choice": {
  "type": "object", "required": ["index", "message", "logprobs", "finish_reason"],
  "properties": {
    "index": @count,
    "message": {
      "type": "object", "required": ["role", "content", "refusal"],
      "properties": {
        "role": {"const": "assistant"},
        "content": {"type": ["string", "null"], "description": "Null in a message that has calls and no text."},
        "refusal": {"type": "null"}, "reasoning_content": {"type": "string"},
        "tool_calls": {"type": "array", "items": @tool_call}
      }
    },
    "logprobs": @chat_logprobs, "finish_reason": @finish_reason, "token_ids": @token_ids,
    "paceline": @rounds
  }
},
"chat_completion": {
  "type": "object", "required": ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"],
  "properties": {
    "id": {"type": "string"}, "object": {"const": "chat.completion"}, "created": @count,
    "model": {"type": "string"}, "system_fingerprint": {"type": "string"},
    "choices": {"type": "array", "minItems": 1, "items": @chat_choice}, "prompt_token_ids": @token_ids,
    "usage": @usage, "metrics": @metrics, "timings": @timings
  }
},
"chat_chunk_choice": {
  "type": "object", "required": ["index", "delta", "logprobs", "finish_reason"],
  "properties": {
    "index": @count,
    "delta": {
      "type": "object",
      "properties": {
        "role": {"const": "assistant"}, "content": {"type": "string"}, "reasoning_content": {"type": "string"},
        "tool_calls": {"type": "array", "items": @tool_call_delta}
      }
    },
    "logprobs": @chat_logprobs, "finish_reason": @finish_reason, "token_ids": @token_ids,
    "paceline": @rounds
  }
},
"chat_chunk": {
  "type": "object", "description": "One event of a streamed chat completion. The last ones have no choice.",
  "required": ["id", "object", "created", "model", "system_fingerprint", "choices"],
  "properties": {
    "id": {"type": "string"}, "object": {"const": "chat.completion.chunk"}, "created": @count,
    "model": {"type": "string"}, "system_fingerprint": {"type": "string"},
    "choices": {"type": "array", "items": @chat_chunk_choice}, "prompt_token_ids": @token_ids,
    "usage": {"anyOf": [@usage, {"type": "null"}]}, "metrics": @metrics, "timings": @timings
  }
},
"model": {
  "type": "object", "required": ["id", "object", "created", "owned_by", "max_model_len", "aliases", "meta"],
  "properties": {
    "id": {"type": "string"}, "object": {"const": "model"}, "created": @count, "owned_by": {"type": "string"},
    "max_model_len": @count, "aliases": {"type": "array", "items": {"type": "string"}},
    "meta": {
      "type": "object", "required": ["n_vocab", "n_ctx", "chat_template", "drafters"],
      "properties": {
        "n_vocab": @count, "n_ctx": @count, "chat_template": {"type": "boolean"},
        "drafters": {"type": "array", "items": {"type": "string"}}
      }
    }
  }
},
"model_list": {
  "type": "object", "required": ["object", "data"],
  "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": @model}}
},
"token_list": {
  "type": "object", "required": ["count", "max_model_len", "tokens"],
  "properties": {
    "count": @count, "max_model_len": @count, "tokens": @token_ids,
    "token_strs": {"type": "array", "items": {"type": "string"}}
  }
},
"token_text": {
  "type": "object", "required": ["prompt", "content"],
  "properties": {"prompt": {"type": "string"}, "content": {"type": "string"}}
},
"tokenizer_info": {
  "type": "object", "required": ["tokenizer_class", "model_max_length", "bos_token", "eos_token", "pad_token"],
  "properties": {
    "tokenizer_class": {"type": "string"}, "model_max_length": @count,
    "bos_token": {"type": ["string", "null"]}, "eos_token": {"type": ["string", "null"]},
    "pad_token": {"type": ["string", "null"]}
  }
}
})schemas";

} // namespace paceline::server
