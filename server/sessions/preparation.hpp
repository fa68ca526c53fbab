#pragma once

#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/completion_replies.hpp"
#include "server/edge_context.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::server {

/// A completion or chat request, ready for the engine. Sequences are prompt-major: choice c of prompt p is p
/// * n + c.
struct prepared_completion {
  const model_view* model = nullptr;
  bool chat = false;
  bool stream = false;
  bool include_usage = false;
  bool echo = false;
  wire::reply_shape shape;
  std::uint32_t num_choices = 1;        ///< a prompt
  std::uint32_t choices_a_sequence = 1; ///< a beam search gives all of a prompt's
  std::vector<shared_list<token_id>> prompts;
  std::vector<std::shared_ptr<const std::string>> prompt_texts; ///< with echo; shared by a prompt's choices
  std::vector<generation_request> sequences;
  std::uint64_t most_kept_bytes = 0; ///< by all sequences together, if the reply is not streamed
  std::string client_id;             ///< request_id of the body
  std::vector<std::string> ignored_fields;
};

/// A response request, ready for the engine.
struct prepared_response {
  const model_view* model = nullptr;
  wire::response_request request;
  generation_request sequence;
  std::vector<wire::chat_message> conversation; ///< all turns of the prompt, without instructions
};

// Host work of milliseconds: these run on edge threads. They are pure but for seeds.

wire::parsed<prepared_completion> prepare_completion(const edge_context& edge, const caller& who,
                                                     std::string_view body);
wire::parsed<prepared_completion> prepare_chat(const edge_context& edge, const caller& who,
                                               std::string_view body);
/// `history`: the turns of the response that this one continues.
wire::parsed<prepared_response> prepare_response(const edge_context& edge, const caller& who,
                                                 wire::response_request request,
                                                 std::vector<wire::chat_message> history);

/// A conversation as the model's template writes it. `field` is what a refusal names.
wire::parsed<std::string> render_text(const model_view& model, const wire::chat_prompt& prompt,
                                      const char* field);

/// Bounds of requests, from options and limits.
wire::request_limits request_limits_of(const edge_context& edge);

/// The model of that name, or 404.
wire::parsed<const model_view*> find_model(const backend& runtime, std::string_view name);

} // namespace paceline::server
