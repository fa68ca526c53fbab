#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/vocabulary.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

struct encode_options {
  bool add_special = true; ///< add the tokens that the vocabulary puts around a text: BOS, sometimes EOS
  /// Spellings of control tokens become these tokens; otherwise they are plain text.
  bool parse_special = true;
  /// Limits the work for long texts: tokenization may stop once a text is known to have more tokens than
  /// this. The result is then a prefix of the text's tokens, and has more than `max_tokens` tokens.
  std::size_t max_tokens = static_cast<std::size_t>(-1);
};

struct decode_options {
  bool skip_special = true; ///< control tokens have no text
  /// The text continues an earlier text: the space at the start of the first token is kept.
  bool continues_text = false;
};

struct tokenizer_parts; // the parts that the file readers fill in; tokenizer_parts.hpp

/// Converts text to tokens and back for one vocabulary. A value: copies share their data, which is immutable,
/// so all functions are thread-safe.
///
/// Text is UTF-8; ill-formed bytes are read as U+FFFD. Time is O(n log n) in the length of the text, for
/// every text.
class tokenizer {
 public:
  explicit tokenizer(std::shared_ptr<const tokenizer_parts> parts);

  /// From a GGUF file's vocabulary. Error: errc::unsupported for an unknown pre-tokenizer.
  static expected<tokenizer> from_vocabulary(vocabulary_data data);

  /// Errors: errc::invalid_argument for a text above 1 GiB; errc::resource_exhausted if a pattern of the
  /// tokenizer exceeds its step limit.
  expected<std::vector<token_id>> encode(std::string_view text, encode_options options = {}) const;

  /// Bytes that are not UTF-8 become U+FFFD, as in bytes.decode("utf-8", errors="replace").
  std::string decode(std::span<const token_id> tokens, decode_options options = {}) const;

  /// The bytes that `token` adds to a text, even if it is special. A character may be divided over several
  /// tokens. Empty for invalid ids.
  std::string_view piece(token_id token) const noexcept;
  /// `token` as the file spells it; empty for invalid ids.
  std::string_view spelling(token_id token) const noexcept;
  /// The token with that spelling in the file.
  std::optional<token_id> find(std::string_view spelling) const noexcept;

  std::size_t size() const noexcept; ///< every id is smaller
  bool contains(token_id token) const noexcept {
    return token.value >= 0 && static_cast<std::size_t>(token.value) < size();
  }
  token_type type(token_id token) const noexcept; ///< unused for invalid ids
  bool is_special(token_id token) const noexcept; ///< control or unknown: not part of the model's text
  std::optional<token_id> bos() const noexcept;
  std::optional<token_id> eos() const noexcept;
  std::optional<token_id> pad() const noexcept;
  std::span<const token_id> eos_like() const noexcept; ///< ascending: all tokens that end a generation
  bool adds_bos() const noexcept;                      ///< whether encode() adds BOS, with add_special
  /// Whether decode() removes a leading space at the start of a text.
  bool strips_leading_space() const noexcept;

  /// Hash (XXH3, 64 bits) of all pieces in order. Equal for two files with the same vocabulary, whatever
  /// their formats.
  std::uint64_t vocabulary_hash() const noexcept;

 private:
  /// `untrusted_tail`: bytes at the end whose words may change if the text continues.
  expected<std::vector<token_id>> encode_well_formed(std::string_view text, const encode_options& options,
                                                     std::size_t untrusted_tail) const;

  std::shared_ptr<const tokenizer_parts> parts_;
};

/// Checks that tokens of one vocabulary can be used in the other, as for a drafter and its target. Sizes may
/// differ by unused entries at the end. The error (errc::invalid_argument) names the first difference.
expected<void> check_compatible(const tokenizer& target, const tokenizer& drafter);

} // namespace paceline::tokenizer
