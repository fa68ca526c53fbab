#pragma once

#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/completion_replies.hpp"
#include "server/edge_context.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::server {

/// A completion or chat request, ready for the engine. Choices are ordered by prompt: choice c of prompt p
/// has index p * num_choices + c. Sequence s generates the choices with indices from s * choices_a_sequence
/// to (s + 1) * choices_a_sequence - 1.
struct prepared_completion {
  const model_view* model = nullptr;
  bool chat = false;
  bool stream = false;
  bool include_usage = false;
  bool echo = false;
  bool has_prediction = false;
  wire::reply_shape shape;
  wire::output_plan output;      ///< reasoning and tool calls to separate from the answer
  std::uint32_t num_choices = 1; ///< for each prompt
  /// 1, or `num_choices` for a beam search, whose sequence returns all choices of a prompt.
  std::uint32_t choices_a_sequence = 1;
  std::vector<shared_list<token_id>> prompts;
  std::vector<std::shared_ptr<const std::string>> prompt_texts; ///< if echoed; shared by a prompt's choices
  std::vector<generation_request> sequences;
  /// Upper bound of bytes held by all sequences together, if the reply is not streamed.
  std::uint64_t most_kept_bytes = 0;
  std::string client_id; ///< request_id in the body
  std::vector<std::string> ignored_fields;
};

/// A response request, ready for the engine.
struct prepared_response {
  const model_view* model = nullptr;
  wire::response_request request;
  generation_request sequence;
  wire::output_plan output;                     ///< reasoning and tool calls to separate from the answer
  std::vector<wire::chat_message> conversation; ///< all turns of the prompt, without instructions
};

// These functions take milliseconds, or seconds if a grammar has to be compiled, so they run on threads of
// edge_pool. Their only side effect is on the cache of compiled grammars. Besides the arguments they use only
// the settings, the clock and random seeds.

/// `path_model`: the model that the request's path names; may be empty.
wire::parsed<prepared_completion> prepare_completion(const edge_context& edge, const caller& who,
                                                     std::string_view body, std::string_view path_model = {});
wire::parsed<prepared_completion> prepare_chat(const edge_context& edge, const caller& who,
                                               std::string_view body, std::string_view path_model = {});
/// A chat in Anthropic's form.
wire::parsed<prepared_completion> prepare_message(const edge_context& edge, const caller& who,
                                                  std::string_view body, std::string_view path_model = {});
/// The prompt of a response that continues `history`.
wire::chat_prompt prompt_of(const wire::response_request& request, std::vector<wire::chat_message> history);

/// True if a grammar may have to be compiled for `request`.
inline bool may_compile(const wire::response_request& request) {
  return request.fields.constraint || !request.tools.empty();
}
/// `history`: the turns of the response that `request` continues.
wire::parsed<prepared_response> prepare_response(const edge_context& edge, const caller& who,
                                                 wire::response_request request,
                                                 std::vector<wire::chat_message> history);

/// Sets the template variables for the wanted reasoning effort. No effect if the model does not reason or the
/// request names no level. Otherwise the first rule that applies decides:
/// - If the template has `reasoning_effort`, the levels low, medium and high set it.
/// - If the template can switch reasoning, "none" switches it off, and every other level switches it on. The
///   request's own `enable_thinking` has precedence.
/// - If the template does not have `reasoning_effort`, medium has no effect.
/// - The level is an error.
std::optional<wire::api_error> apply_effort(const model_view& model, const wire::effort_wish& wish,
                                            wire::chat_prompt& prompt);

/// A conversation as text, rendered by the model's template. `field` is the field that an error names.
wire::parsed<std::string> render_text(const model_view& model, const wire::chat_prompt& prompt,
                                      const char* field);

/// Limits of requests, from options and edge limits.
wire::request_limits request_limits_of(const edge_context& edge);

/// The model of that name, or the error 404.
wire::parsed<const model_view*> find_model(const backend& runtime, std::string_view name);
/// The model that the path or the body of a request names. An error if they name different ones.
wire::parsed<const model_view*> find_model(const backend& runtime, std::string_view path_model,
                                           std::string_view body_model);
/// The same for /tokenize and /detokenize. An error if several models are served and none is named, because a
/// client would not notice that it got the ids of another model's vocabulary.
wire::parsed<const model_view*> find_tokenizer(const backend& runtime, std::string_view path_model,
                                               std::string_view body_model);

} // namespace paceline::server
