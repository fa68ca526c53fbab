#pragma once

#include "runtime/base/expected.hpp"

#include <span>
#include <string_view>

namespace paceline::tokenizer {

/// The patterns and settings of a BPE vocabulary. A GGUF file does not contain them; it only names the
/// pre-tokenizer to which they belong (tokenizer.ggml.pre).
struct bpe_family {
  std::span<const std::string_view>
      patterns;               ///< applied in order; each one splits the pieces that the one before made
  bool ignore_merges = false; ///< a word that is a token becomes this token, without merges
  bool add_bos = false;       ///< default if the file does not say
  /// Plain text with U+2581 for spaces and byte fallback instead of byte-level spelling.
  bool spm_spelling = false;
  bool composes = false;     ///< text is brought to the normalization form NFC first
  bool group_digits = false; ///< first divides runs of digits into groups of three from the right
};

/// The family called `pre`; an empty name means "default". An unknown name gives errc::unsupported, because a
/// guess would give tokens on which the model was not trained.
expected<bpe_family> find_bpe_family(std::string_view pre);

/// Every known name.
std::span<const std::string_view> bpe_family_names() noexcept;

} // namespace paceline::tokenizer
