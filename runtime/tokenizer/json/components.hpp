#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/json_node.hpp"
#include "runtime/tokenizer/normalizer.hpp"
#include "runtime/tokenizer/pre_tokenizers/pre_tokenizer.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::tokenizer {

// Readers of the components of a Hugging Face tokenizer.json. The first error is recorded for the whole
// document (`json_node::failed`): errc::unsupported for an unknown component, errc::invalid_file for a
// malformed one. After an error the results must not be used.

/// Reads the value of member "normalizer" and appends its steps to `out`. If `node` is absent, `out` is
/// unchanged.
void read_normalizer(const json_node& node, normalizer& out);

/// Reads the value of member "pre_tokenizer" and appends its steps to `out`. If `node` is absent, the whole
/// text is one word.
void read_pre_tokenizer(const json_node& node, pre_tokenizer& out);

/// How a token's spelling is converted to bytes.
struct decoder_rules {
  bool byte_level = false;          ///< spellings are in the alphabet of byte-level BPE
  bool spaces_between = false;      ///< every token gets a space before its text
  bool byte_fallback = false;       ///< "<0xHH>" is a byte
  bool strip_leading_space = false; ///< at the start of the text
  std::vector<std::pair<std::string, std::string>> replacements; ///< (from, to), applied in order

  /// The bytes of a token spelt `spelling`. The first of these rules that is set applies: spaces_between,
  /// byte_level, byte_fallback (for "<0xHH>" only). If none does, the replacements apply. A spelling that is
  /// not in the byte-level alphabet stays as it is.
  std::string piece(std::string_view spelling) const;
};

/// Reads the value of member "decoder". If `node` is absent, tokens are written as spelt, with spaces between
/// them and none at the start of the text.
decoder_rules read_decoder(const json_node& node);

/// The tokens that a post-processor adds around a text.
struct surroundings {
  std::vector<token_id> before, after;
};

/// Reads the value of member "post_processor"; for a template, its form for a single text. If `node` is
/// absent, nothing is added. An id that is not below `num_tokens` is an error.
surroundings read_post_processor(const json_node& node, std::uint32_t num_tokens);

} // namespace paceline::tokenizer
