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
  bool add_special = true; ///< what the vocabulary puts around a text: BOS, sometimes EOS
  bool parse_special =
      true; ///< spellings of control tokens become those tokens; otherwise they are plain text
  /// A text of more tokens is read no further than it takes to see that: the result is then its beginning, of
  /// more than `max_tokens`. The work is bounded by them, not by the text.
  std::size_t max_tokens = static_cast<std::size_t>(-1);
};

struct decode_options {
  bool skip_special = true;    ///< control tokens have no text
  bool continues_text = false; ///< text stands before: keep the space that a text's first token begins with
};

struct tokenizer_parts; // tokenizer_parts.hpp: what the two readers of files put together

/// Text to tokens and back, of one vocabulary. A value: copies share what they are made of, which is const,
/// so any thread may call anything.
///
/// Text is UTF-8; ill-formed bytes are read as U+FFFD. Time is linear in the text but for a logarithm,
/// whatever it is.
class tokenizer {
 public:
  explicit tokenizer(std::shared_ptr<const tokenizer_parts> parts);

  /// From a GGUF file's vocabulary. Errors: errc::unsupported for a pre-tokenizer that is not known.
  static expected<tokenizer> from_vocabulary(vocabulary_data data);

  /// Fails on texts above 1 GiB, and where a pattern of the file needs more time than a fair one does.
  expected<std::vector<token_id>> encode(std::string_view text, encode_options options = {}) const;

  /// Bytes that are not UTF-8 become U+FFFD, as in bytes.decode("utf-8", errors="replace").
  std::string decode(std::span<const token_id> tokens, decode_options options = {}) const;

  /// The bytes that `token` adds to a text, special or not; a character may be spread over several tokens.
  /// Empty for ids that are no token.
  std::string_view piece(token_id token) const noexcept;
  /// `token` as the file spells it; empty for ids that are no token.
  std::string_view spelling(token_id token) const noexcept;
  /// The token of that spelling in the file.
  std::optional<token_id> find(std::string_view spelling) const noexcept;

  std::size_t size() const noexcept; ///< ids are below it
  bool contains(token_id token) const noexcept {
    return token.value >= 0 && static_cast<std::size_t>(token.value) < size();
  }
  token_type type(token_id token) const noexcept; ///< unused for ids that are no token
  bool is_special(token_id token) const noexcept; ///< control or unknown: no text of the model's
  std::optional<token_id> bos() const noexcept;
  std::optional<token_id> eos() const noexcept;
  std::optional<token_id> pad() const noexcept;
  std::span<const token_id> eos_like() const noexcept; ///< ascending: every token that ends a generation
  bool adds_bos() const noexcept;                      ///< encode() does, with add_special
  bool strips_leading_space() const noexcept;          ///< decode() does, where a text begins

  /// xxHash64 (XXH3) over all pieces in order. Equal for two files of one vocabulary, whatever their formats.
  std::uint64_t vocabulary_hash() const noexcept;

 private:
  /// `untrusted_tail`: bytes at the end whose words may become other ones if the text goes on.
  expected<std::vector<token_id>> encode_well_formed(std::string_view text, const encode_options& options,
                                                     std::size_t untrusted_tail) const;

  std::shared_ptr<const tokenizer_parts> parts_;
};

/// Whether tokens of one are tokens of the other, as a drafter's must be of its target's. Sizes may differ by
/// unused entries at the end. The error (errc::invalid_argument) names the first difference.
expected<void> check_compatible(const tokenizer& target, const tokenizer& drafter);

} // namespace paceline::tokenizer
