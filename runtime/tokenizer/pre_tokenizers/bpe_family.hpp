#pragma once

#include "runtime/base/expected.hpp"

#include <span>
#include <string_view>

namespace paceline::tokenizer {

/// What GGUF's tokenizer.ggml.pre says about a BPE vocabulary: the name stands for patterns and habits that
/// the file itself does not hold.
struct bpe_family {
  std::span<const std::string_view>
      patterns;               ///< splits, one after the other, each inside the pieces of the last
  bool ignore_merges = false; ///< a word that is a token is that token
  bool add_bos = false;       ///< when the file does not say
  bool spm_spelling =
      false; ///< plain text with U+2581 for spaces and byte fallback instead of byte-level spelling
  bool group_digits =
      false; ///< runs of digits are cut into groups of three from the right before anything else
};

/// The family called `pre`; empty means "default". An unknown name is errc::unsupported: a guess would give
/// other tokens than the model was trained on.
expected<bpe_family> find_bpe_family(std::string_view pre);

/// Every known name.
std::span<const std::string_view> bpe_family_names() noexcept;

} // namespace paceline::tokenizer
