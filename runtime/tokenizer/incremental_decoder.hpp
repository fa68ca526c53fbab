#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <string>

namespace paceline::tokenizer {

/// Decodes tokens to text as they arrive. The concatenated increments, flush() included, equal
/// tokenizer::decode() of all tokens. Each increment is well-formed UTF-8, so a character is returned when
/// its last byte has arrived. For one generation; not thread-safe.
class incremental_decoder {
 public:
  explicit incremental_decoder(tokenizer vocabulary, decode_options options = {})
      : vocabulary_(std::move(vocabulary)), options_(options) {}

  /// The text that `token` completes; often empty, always whole characters.
  std::string feed(token_id token);

  /// Ends the text: returns U+FFFD for an incomplete character, or nothing. Nothing may be fed afterwards.
  std::string flush();

 private:
  tokenizer vocabulary_;
  decode_options options_;
  std::string pending_;      ///< first bytes of an incomplete character: at most three between calls
  bool at_beginning_ = true; ///< no text yet
};

} // namespace paceline::tokenizer
