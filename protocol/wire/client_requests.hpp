#pragma once

#include "protocol/wire/chat_prompt.hpp"
#include "protocol/wire/generation_fields.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline::wire {

/// A text to tokenize, or token ids that are used as they are.
using prompt_input = std::variant<std::string, std::vector<token_id>>;

/// POST /v1/completions.
struct completion_request {
  generation_fields fields;
  std::vector<prompt_input> prompts; ///< at least one
  bool echo = false;                 ///< the prompt's text is returned before the output
  /// Number of likeliest tokens reported at each position; nullopt: no log-probabilities.
  std::optional<std::uint32_t> num_logprobs;
};

/// POST /v1/chat/completions.
struct chat_request {
  generation_fields fields;
  chat_prompt prompt;
  std::optional<std::uint32_t> num_logprobs; ///< as in `completion_request`
};

/// The point at which a client that has lost its connection continues to read.
struct resume_point {
  std::string response_id;
  std::uint32_t next_token = 0; ///< output index of the first token that the client has not seen
};

/// Paceline's extensions of the Responses protocol. They are members of the object "paceline", which also has
/// token_ids and trace. All are off by default.
struct response_options {
  bool resumable = false; ///< the generation continues for a while without its connection
  std::optional<resume_point> resume;
};

/// An item of `input` that names an item of a stored response instead of repeating it.
struct item_reference {
  std::string id;
  std::size_t place = 0; ///< index among the items
};

/// POST /v1/responses, and `response.create` of the WebSocket mode.
struct response_request {
  generation_fields fields;
  std::string instructions;
  std::vector<chat_message> input;
  /// If not empty, `input` has one turn for each item until `resolve_references` is called.
  std::vector<item_reference> references;
  std::string tools; ///< JSON text of the array; empty: none
  bool parallel_tool_calls = true;
  tool_demand demand; ///< from tool_choice
  std::string previous_response_id;
  std::string metadata = "{}";                     ///< JSON text, echoed
  std::string safety_identifier, prompt_cache_key; ///< echoed
  std::string text_format;                         ///< JSON text of `text.format`, echoed; empty: free text
  std::optional<std::uint32_t> num_logprobs;       ///< as in `completion_request`
  bool store = true;
  bool generate = true; ///< false: compute the prompt into the prefix cache and return no answer
  response_options options;
};

/// One text frame of a WebSocket client.
struct client_frame {
  enum class kind { create, cancel };
  kind what = kind::create;
  std::string stream_id;   ///< lane, one of the response streams of a WebSocket; empty = the default lane
  response_request create; ///< with kind::create
  std::string response_id; ///< with kind::cancel
};

/// POST /tokenize and /detokenize.
struct tokenize_request {
  std::string model;
  std::optional<std::string> text;
  chat_prompt prompt; ///< instead of text
  effort_wish effort; ///< of the prompt
  bool add_special_tokens = true;
  bool parse_special_tokens = true;
  bool with_pieces = false; ///< the reply has the text of each token
  std::vector<std::string> ignored_fields;
};
struct detokenize_request {
  std::string model;
  std::vector<token_id> tokens;
  std::vector<std::string> ignored_fields;
};

parsed<completion_request> parse_completion_request(std::string_view body, const request_limits& limits);
parsed<chat_request> parse_chat_request(std::string_view body, const request_limits& limits);
parsed<response_request> parse_response_request(std::string_view body, const request_limits& limits);
parsed<tokenize_request> parse_tokenize_request(std::string_view body, const request_limits& limits);
parsed<detokenize_request> parse_detokenize_request(std::string_view body, const request_limits& limits);

/// Returns the item of a stored response that has this id, as a turn; nullopt if there is no such item.
using item_lookup = std::function<std::optional<chat_message>(const std::string& id)>;
/// Replaces the references in `request.input` by the turns that `find` returns, and joins the turns. Error: a
/// referenced item does not exist; the referenced items have more than `max_bytes` bytes of text (a short
/// request may name a long item many times); or the calls have more than `max_tree_values` values in their
/// arguments.
std::optional<api_error> resolve_references(response_request& request, std::size_t max_bytes,
                                            const item_lookup& find);

/// A frame that is refused. `stream_id` is the frame's lane, or empty if that could not be parsed.
struct refused_frame {
  std::string stream_id;
  api_error failure;
};
std::variant<client_frame, refused_frame> parse_client_frame(std::string_view text,
                                                             const request_limits& limits);

} // namespace paceline::wire
