#pragma once

#include "engine/engine.hpp"
#include "engine/snapshot.hpp"
#include "protocol/wire/generation_fields.hpp"
#include "protocol/wire/output/output_format.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/token_constraint.hpp"
#include "runtime/grammar/grammar_compiler.hpp"
#include "server/load_status.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace boost::json {
class object;
}

namespace paceline::server {

/// Purpose of a special token.
enum class special_role : std::uint8_t { begin, end, padding };

/// Decodes tokens to text as they arrive. The concatenated results of all calls are the text of all tokens.
/// Used by one thread at a time.
class text_decoder {
 public:
  virtual ~text_decoder() = default;
  /// The text that `token` completes; always whole characters.
  virtual std::string feed(token_id token) = 0;
  /// U+FFFD if a character was begun and not completed, else empty. `feed` must not be called afterwards.
  virtual std::string flush() = 0;
};

/// How a chat template influences reasoning.
struct template_reasoning {
  bool any = false;         ///< the template opens thoughts, or depends on a variable below
  bool is_switched = false; ///< `enable_thinking` (or `thinking`) switches reasoning on or off
  bool has_effort = false;  ///< the template depends on `reasoning_effort`
};

/// A served model as the edge (the network side of the server) sees it: tokenizer, template and limits.
/// Immutable; thread-safe.
class model_view {
 public:
  virtual ~model_view() = default;
  virtual const wire::model_limits& limits() const noexcept = 0;
  virtual const std::vector<std::string>& aliases() const noexcept = 0;
  /// When the model was loaded, in seconds since 1970.
  virtual std::int64_t created() const noexcept = 0;
  /// Requests that may run or wait at the same time; further ones are refused.
  virtual std::size_t max_requests() const noexcept = 0;

  /// Tokens of `text`. `add_special` adds the tokens that the model expects around a prompt; `parse_special`
  /// turns spellings of special tokens into these tokens. A text of more than `max_tokens` tokens need not be
  /// tokenized to its end: the result is then a prefix with more than `max_tokens` tokens. For errors see
  /// tokenizer::encode.
  virtual expected<std::vector<token_id>> encode(std::string_view text, bool add_special, bool parse_special,
                                                 std::size_t max_tokens) const = 0;
  virtual std::string decode(std::span<const token_id> tokens, bool skip_special) const = 0;
  /// A new incremental decoder, which writes special tokens as text.
  virtual std::unique_ptr<text_decoder> decoder() const = 0;
  /// Spelling of a special token; nullopt if the model has none.
  virtual std::optional<std::string> special_token(special_role role) const = 0;
  /// Bytes of one token, which need not be whole characters; for special tokens their spelling.
  virtual std::string token_bytes(token_id token) const = 0;
  virtual bool is_special(token_id token) const = 0;

  virtual bool has_chat_template() const noexcept = 0;
  /// True if the template refers to tools.
  virtual bool template_takes_tools() const noexcept = 0;
  virtual const template_reasoning& reasoning() const noexcept = 0;
  /// The format of the model's output: markers of thoughts, and the syntax of calls.
  virtual const wire::output_format& outputs() const noexcept = 0;
  /// Compiles a grammar that an output must match (grammar::compiler::compile). It may take seconds, so it
  /// must not be called on an actor's thread.
  virtual expected<std::shared_ptr<const token_constraint>>
  compile(const grammar::grammar_source& source) const = 0;
  /// Renders the chat template, which the model must have, with `variables` (chat_renderer in
  /// template_probe.hpp). Error: the template fails or refuses the conversation.
  virtual expected<std::string> render_chat(boost::json::object variables) const = 0;
};

/// The runtime as the edge sees it: an engine, or a substitute in tests. Thread-safe; see engine/engine.hpp.
class backend {
 public:
  virtual ~backend() = default;
  /// The model of that name or alias; null if there is none.
  virtual const model_view* model(std::string_view name) const noexcept = 0;
  virtual std::vector<const model_view*> models() const = 0;
  virtual request_id submit(generation_request request, event_sink sink, flow_control flow) = 0;
  virtual void cancel(request_id request) = 0;
  virtual void grant(request_id request, std::uint32_t tokens) = 0;
  virtual bool healthy() const noexcept = 0;
  /// Progress of loading the models; nullopt once they are in service. Until then `models` is empty.
  virtual std::optional<load_status> loading() const { return std::nullopt; }
  /// May block for up to a second.
  virtual engine_snapshot snapshot() const = 0;
};

/// `runtime` must outlive the backend.
std::unique_ptr<backend> make_engine_backend(engine& runtime);

} // namespace paceline::server
