#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <string>

namespace paceline::tokenizer {

/// Tokens in, text out, as they come. The increments put together, flush() included, are what
/// tokenizer::decode() gives for all tokens at once; each is well-formed UTF-8 by itself, so a character
/// appears when its last byte does. One generation's; not for several threads at once.
class incremental_decoder {
 public:
  explicit incremental_decoder(tokenizer vocabulary, decode_options options = {})
      : vocabulary_(std::move(vocabulary)), options_(options) {}

  /// The text that `token` completes; often empty, never half a character.
  std::string feed(token_id token);

  /// The end: U+FFFD for a character that was begun and not finished, or nothing. Nothing is fed after it.
  std::string flush();

 private:
  tokenizer vocabulary_;
  decode_options options_;
  std::string pending_;      ///< bytes that may become a character: at most three between calls
  bool at_beginning_ = true; ///< no byte of text yet
};

} // namespace paceline::tokenizer
