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

/// Member "normalizer"; absent means none.
void read_normalizer(const json_node& node, normalizer& out);

/// Member "pre_tokenizer"; absent means one word per text.
void read_pre_tokenizer(const json_node& node, pre_tokenizer& out);

/// How decoders turn a token's spelling into its bytes.
struct decoder_rules {
  bool byte_level = false;
  bool spaces_between = false;      ///< tokens are words
  bool byte_fallback = false;       ///< "<0xHH>" is a byte
  bool strip_leading_space = false; ///< of the whole text
  std::vector<std::pair<std::string, std::string>> replacements;

  /// The bytes of a token spelt `spelling`.
  std::string piece(std::string_view spelling) const;
};

/// Member "decoder"; absent means tokens as they are spelt, with spaces between.
decoder_rules read_decoder(const json_node& node);

/// What a post-processor puts around one text.
struct surroundings {
  std::vector<token_id> before, after;
};

/// Member "post_processor"; absent means nothing. Ids are below `num_tokens`.
surroundings read_post_processor(const json_node& node, std::uint32_t num_tokens);

} // namespace paceline::tokenizer
