// The endpoints that describe the models.
#include "server/service.hpp"

#include "protocol/wire/json_writer.hpp"
#include "server/http/error_reply.hpp"
#include "server/sessions/preparation.hpp"

#include <string>
#include <utility>

namespace paceline::server {

namespace {

void write_model(wire::json_writer& out, const model_view& model) {
  const auto& limits = model.limits();
  out.begin_object()
      .field("id", limits.name)
      .field("object", "model")
      .field("created", model.created())
      .field("owned_by", "paceline");
  out.field("max_model_len", limits.context_length).key("aliases").begin_array();
  for (const auto& alias : model.aliases()) out.value(alias);
  out.end_array()
      .key("meta")
      .begin_object()
      .field("n_vocab", limits.vocab_size)
      .field("n_ctx", limits.context_length);
  out.field("chat_template", model.has_chat_template()).key("drafters").begin_array();
  for (const auto& drafter : limits.drafters) out.value(drafter);
  out.end_array().end_object().end_object();
}

} // namespace

http_reply service::list_models() const {
  wire::json_writer out;
  out.begin_object().field("object", "list").key("data").begin_array();
  for (const auto* model : edge_.runtime.models()) write_model(out, *model);
  return json_reply(out.end_array().end_object().take());
}

http_reply service::describe_model(const std::string& name) const {
  const auto model = find_model(edge_.runtime, name);
  if (!model) return error_reply(model.failure());
  wire::json_writer out;
  write_model(out, **model);
  return json_reply(out.take());
}

/// The shape is vLLM's: evaluation tools read the special tokens and continue with /tokenize and /detokenize.
http_reply service::describe_tokenizer(const admitted_request& request) const {
  const auto found =
      find_tokenizer(edge_.runtime, request.where.id, request.head.query_value("model").value_or(""));
  if (!found) return error_reply(found.failure());
  const auto& model = **found;
  wire::json_writer out;
  out.begin_object()
      .field("tokenizer_class", "paceline")
      .field("model_max_length", model.limits().context_length);
  static constexpr std::pair<const char*, special_role> roles[] = {{"bos_token", special_role::begin},
                                                                   {"eos_token", special_role::end},
                                                                   {"pad_token", special_role::padding}};
  for (const auto& [key, role] : roles) {
    const auto spelling = model.special_token(role);
    spelling ? out.field(key, *spelling) : out.key(key).null();
  }
  return json_reply(out.end_object().take());
}

} // namespace paceline::server
