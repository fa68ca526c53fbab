#include "server/sessions/conversion.hpp"

#include "protocol/wire/byte_log.hpp"
#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/messages_request.hpp"
#include "protocol/wire/usage.hpp"
#include "server/http/shared_text.hpp"
#include "server/sessions/conversation_store.hpp"
#include "server/sessions/preparation.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace paceline::server {

namespace {

using wire::parsed;
using made_text = std::unique_ptr<wire::text_source>;

/// The ids of a reply, which may wait for its client for a long time. With seven bits a byte, an id takes at
/// most half as many bytes as in the body. A plain list of ids would take two to four times as much.
wire::byte_log packed(const std::vector<token_id>& tokens) {
  wire::byte_log ids;
  for (const auto token : tokens) ids.put(static_cast<std::uint32_t>(token.value));
  return ids;
}

token_id next_of(wire::byte_log::cursor& ids) { return token_id{static_cast<std::int32_t>(ids.number())}; }

/// {"count", "max_model_len", "tokens", "token_strs"}
class token_list final : public wire::text_source {
 public:
  token_list(const model_view& model, const std::vector<token_id>& tokens, bool with_pieces)
      : model_(model), tokens_(packed(tokens)), with_pieces_(with_pieces) {
    out_.begin_object()
        .field("count", tokens.size())
        .field("max_model_len", model.limits().context_length)
        .key("tokens")
        .begin_array();
  }
  std::string next(std::size_t num_bytes) override {
    while (part_ != part::done && out_.size() < num_bytes) step();
    return out_.take();
  }
  bool at_end() const noexcept override { return part_ == part::done; }
  std::size_t num_bytes() const noexcept override { return tokens_.size() + out_.size(); }

 private:
  enum class part { ids, pieces, done };

  void step() {
    if (!at_.at_end()) {
      const auto token = next_of(at_);
      if (part_ == part::ids)
        out_.value(token.value);
      else
        out_.value(wire::printable_token(model_.token_bytes(token)));
      return;
    }
    out_.end_array();
    if (part_ == part::ids && with_pieces_) {
      out_.key("token_strs").begin_array();
      part_ = part::pieces;
      at_ = wire::byte_log::cursor(tokens_);
      return;
    }
    out_.end_object();
    part_ = part::done;
  }

  const model_view& model_;
  const wire::byte_log tokens_;
  const bool with_pieces_;
  part part_ = part::ids;
  wire::byte_log::cursor at_{tokens_};
  wire::json_writer out_;
};

/// {"prompt": text, "content": text}: vLLM's and llama-server's names.
class token_text final : public wire::text_source {
 public:
  token_text(const model_view& model, const std::vector<token_id>& tokens)
      : model_(model), tokens_(packed(tokens)), decoder_(model.decoder()), out_(R"({"prompt":")") {}

  std::string next(std::size_t num_bytes) override {
    while (!done_ && out_.size() < num_bytes) step();
    return std::exchange(out_, {});
  }
  bool at_end() const noexcept override { return done_; }
  std::size_t num_bytes() const noexcept override { return tokens_.size() + out_.size(); }

 private:
  void step() {
    if (!at_.at_end()) return wire::append_escaped(out_, decoder_->feed(next_of(at_)));
    wire::append_escaped(out_, decoder_->flush());
    if (std::exchange(second_, true)) {
      out_ += "\"}";
      done_ = true;
      return;
    }
    out_ += R"(","content":")";
    decoder_ = model_.decoder();
    at_ = wire::byte_log::cursor(tokens_);
  }

  const model_view& model_;
  const wire::byte_log tokens_;
  wire::byte_log::cursor at_{tokens_};
  std::unique_ptr<text_decoder> decoder_;
  std::string out_;
  bool second_ = false;
  bool done_ = false;
};

/// The tokens of a text, as many as the model's limits count. `field` names the text.
parsed<std::vector<token_id>> counted_tokens(const model_view& model, const std::string& text,
                                             bool add_special, bool parse_special, const char* field) {
  const auto most = std::max<std::size_t>(model.limits().context_length, max_counted_tokens);
  auto tokens = model.encode(text, add_special, parse_special, most);
  if (!tokens) return wire::from_error(tokens.error(), field);
  if (tokens->size() > most)
    return wire::invalid_value(field, std::string(field) + ": has more than " + std::to_string(most) +
                                          " tokens, which is as far as they are counted at once");
  return *std::move(tokens);
}

/// The number of tokens of a prompt, as `members` followed by "input_tokens". `field` names the prompt.
parsed<made_text> counted_prompt(const model_view& model, const wire::effort_wish& effort,
                                 wire::chat_prompt prompt, const char* field, wire::json_writer members) {
  if (auto failure = apply_effort(model, effort, prompt)) return *std::move(failure);
  const auto text = render_text(model, prompt, field);
  if (!text) return text.failure();
  const auto tokens = counted_tokens(model, *text, false, true, field);
  if (!tokens) return tokens.failure();
  members.field("input_tokens", tokens->size()).end_object();
  return made_text(std::make_unique<shared_text>(std::make_shared<const std::string>(members.take())));
}

} // namespace

parsed<made_text> count_reply(const edge_context& edge, request_body body, std::string_view path_model) {
  auto request = wire::parse_count_request(body.text, request_limits_of(edge));
  body = {};
  if (!request) return std::move(request).failure();
  const auto model = find_model(edge.runtime, path_model, request->fields.model);
  if (!model) return model.failure();
  wire::json_writer members;
  members.begin_object();
  return counted_prompt(**model, request->fields.effort, std::move(request->prompt), "messages",
                        std::move(members));
}

parsed<made_text> input_count_reply(const edge_context& edge, wire::response_request request,
                                    std::vector<wire::chat_message> history) {
  const auto model = find_model(edge.runtime, request.fields.model);
  if (!model) return model.failure();
  auto prompt = prompt_of(request, std::move(history));
  if (auto failure = judge_arguments(prompt.messages)) return *std::move(failure);
  wire::json_writer members;
  members.begin_object().field("object", "response.input_tokens");
  return counted_prompt(**model, request.fields.effort, std::move(prompt), "input", std::move(members));
}

parsed<made_text> tokenize_reply(const edge_context& edge, request_body body, std::string_view path_model) {
  auto request = wire::parse_tokenize_request(body.text, request_limits_of(edge));
  body = {};
  if (!request) return std::move(request).failure();
  const auto found = find_tokenizer(edge.runtime, path_model, request->model);
  if (!found) return found.failure();
  const auto& model = **found;
  if (!request->text) {
    if (auto failure = apply_effort(model, request->effort, request->prompt)) return *std::move(failure);
    auto rendered = render_text(model, request->prompt, "messages");
    if (!rendered) return std::move(rendered).failure();
    request->text = *std::move(rendered);
    request->prompt = {};
    request->add_special_tokens = false; // the template writes them itself
    request->parse_special_tokens = true;
  }
  const auto tokens = counted_tokens(model, *request->text, request->add_special_tokens,
                                     request->parse_special_tokens, "prompt");
  if (!tokens) return tokens.failure();
  return made_text(std::make_unique<token_list>(model, *tokens, request->with_pieces));
}

parsed<made_text> detokenize_reply(const edge_context& edge, request_body body, std::string_view path_model) {
  auto request = wire::parse_detokenize_request(body.text, request_limits_of(edge));
  body = {};
  if (!request) return request.failure();
  const auto model = find_tokenizer(edge.runtime, path_model, request->model);
  if (!model) return model.failure();
  for (const auto token : request->tokens)
    if (static_cast<std::uint32_t>(token.value) >= (*model)->limits().vocab_size)
      return wire::invalid_value("tokens", "tokens: " + to_string(token) + " is outside the vocabulary of " +
                                               std::to_string((*model)->limits().vocab_size));
  return made_text(std::make_unique<token_text>(**model, request->tokens));
}

} // namespace paceline::server
