#pragma once

#include "engine/engine.hpp"
#include "engine/snapshot.hpp"
#include "protocol/wire/generation_fields.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"

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

/// What a special token is for.
enum class special_role : std::uint8_t { begin, end, padding };

/// Tokens in, text out, as they come: together the text of all of them. One thread's at a time.
class text_decoder {
 public:
  virtual ~text_decoder() = default;
  /// The text that `token` completes; never half a character.
  virtual std::string feed(token_id token) = 0;
  /// What stands for a character that was begun and not finished. Nothing is fed after it.
  virtual std::string flush() = 0;
};

/// A served model in the terms of the edge: text in, tokens out, and back. Constant; thread-safe.
class model_view {
 public:
  virtual ~model_view() = default;
  virtual const wire::model_limits& limits() const noexcept = 0;
  virtual const std::vector<std::string>& aliases() const noexcept = 0;
  /// Requests that run or wait at a time; further ones are refused.
  virtual std::size_t max_requests() const noexcept = 0;

  /// Tokens of `text`. `add_special`: those the model wants around a prompt; `parse_special`: spellings of
  /// special tokens become these tokens. A text of more than `max_tokens` tokens need not be read to its end:
  /// the result is then its beginning, of more than `max_tokens`.
  virtual expected<std::vector<token_id>> encode(std::string_view text, bool add_special, bool parse_special,
                                                 std::size_t max_tokens) const = 0;
  virtual std::string decode(std::span<const token_id> tokens, bool skip_special) const = 0;
  /// The same with special tokens, token by token.
  virtual std::unique_ptr<text_decoder> decoder() const = 0;
  /// Spelling of a special token; none if the model has no such token.
  virtual std::optional<std::string> special_token(special_role role) const = 0;
  /// Bytes of one token, which need not be whole characters; special tokens by their spelling.
  virtual std::string token_bytes(token_id token) const = 0;

  virtual bool has_chat_template() const noexcept = 0;
  /// The template refers to tools.
  virtual bool template_takes_tools() const noexcept = 0;
  virtual expected<std::string> render_chat(boost::json::object variables) const = 0;
};

/// What the edge needs of the runtime: an engine, or in tests a script. Thread-safe; see engine/engine.hpp.
class backend {
 public:
  virtual ~backend() = default;
  virtual const model_view* model(std::string_view name) const noexcept = 0;
  virtual std::vector<const model_view*> models() const = 0;
  virtual request_id submit(generation_request request, event_sink sink, flow_control flow) = 0;
  virtual void cancel(request_id request) = 0;
  virtual void grant(request_id request, std::uint32_t tokens) = 0;
  virtual bool healthy() const noexcept = 0;
  /// May take a second.
  virtual engine_snapshot snapshot() const = 0;
};

/// `runtime` must outlive the backend.
std::unique_ptr<backend> make_engine_backend(engine& runtime);

} // namespace paceline::server
