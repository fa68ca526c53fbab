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

// Readers of the components of a tokenizer.json. Errors are recorded in the node.

/// Reads member "normalizer"; if absent, there is none.
void read_normalizer(const json_node& node, normalizer& out);

/// Reads member "pre_tokenizer"; if absent, a text is one word.
void read_pre_tokenizer(const json_node& node, pre_tokenizer& out);

/// How a token's spelling is converted to bytes.
struct decoder_rules {
  bool byte_level = false;
  bool spaces_between = false;      ///< tokens are words
  bool byte_fallback = false;       ///< "<0xHH>" is a byte
  bool strip_leading_space = false; ///< at the start of the text
  std::vector<std::pair<std::string, std::string>> replacements;

  /// The bytes of a token spelt `spelling`.
  std::string piece(std::string_view spelling) const;
};

/// Reads member "decoder"; if absent, tokens are written as spelled, with spaces between them.
decoder_rules read_decoder(const json_node& node);

/// The tokens that a post-processor adds around a text.
struct surroundings {
  std::vector<token_id> before, after;
};

/// Reads member "post_processor"; if absent, nothing is added. Ids must be below `num_tokens`.
surroundings read_post_processor(const json_node& node, std::uint32_t num_tokens);

} // namespace paceline::tokenizer
