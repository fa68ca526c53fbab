#include "runtime/tokenizer/tokenizer.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <xxhash.h>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace paceline::tokenizer {

namespace {

constexpr std::size_t max_text_bytes = std::size_t{1}
                                       << 30; ///< offsets are 32 bits, and byte-level spelling doubles

bool is_special_type(token_type type) noexcept {
  return type == token_type::control || type == token_type::unknown;
}

/// Words longer than this are examined before they are merged, because merging takes longer than finding out
/// that they are too long.
constexpr std::size_t long_word_bytes = 64U << 10U;
/// Number of bytes at the end of a prefix whose words may still change: patterns look ahead by a character or
/// two.
constexpr std::size_t probe_tail_bytes = 1024;
/// Length of the first prefix that is tried, in bytes per token: text has 2 to 5.
constexpr std::size_t probe_bytes_a_token = 8;

/// Appends the tokens of one stretch of normalized text without added tokens, until the limit is reached.
struct stretch_encoder {
  const tokenizer_parts& parts;
  regex::scratch& work;
  std::size_t max_tokens;
  std::vector<token_id>& out;

  bool full() const noexcept { return out.size() > max_tokens; }

  expected<void> operator()(std::string text, bool begins_input, std::size_t untrusted_tail) const {
    text_pieces pieces(std::move(text));
    if (auto done = parts.split.apply(pieces, begins_input, work); !done) return done;
    const auto trusted = pieces.text.size() - std::min(untrusted_tail, pieces.text.size());
    std::visit([&](const auto& model) { encode_pieces(model, pieces, trusted); }, parts.model);
    return {};
  }

  /// Encodes the words. Words that end after `trusted` are left out; without a value the text is complete.
  template <class Model>
  void encode_pieces(const Model& model, const text_pieces& pieces, std::size_t trusted) const {
    typename Model::workspace scratch;
    for (const text_range range : pieces.ranges) {
      if (range.end > trusted && trusted < pieces.text.size()) return;
      encode_word(model, pieces[range], scratch);
      if (full()) return;
    }
  }

  template <class Model>
  void encode_word(const Model& model, std::string_view word, typename Model::workspace& scratch) const {
    if (word.size() > long_word_bytes && full_after(word)) return encode_beginning(model, word, scratch);
    if constexpr (std::is_same_v<Model, unigram_model>)
      model.encode(word, scratch, out);
    else
      model.encode(word, scratch, out, max_tokens);
  }

  /// True if `word` certainly has more tokens than allowed.
  bool full_after(std::string_view word) const {
    return parts.lengths.fewest_tokens(word) > max_tokens - std::min(max_tokens, out.size());
  }

  /// A prefix of a word that is too long. The prefix is long enough to exceed the limit of tokens.
  template <class Model>
  void encode_beginning(const Model& model, std::string_view word, typename Model::workspace& scratch) const {
    const auto before = out.size();
    for (auto size = long_word_bytes; !full(); size *= 2) {
      out.resize(before);
      auto end = std::min(size, word.size());
      while (end < word.size() && is_utf8_continuation(word[end])) --end;
      model.encode(word.substr(0, end), scratch, out);
      if (end == word.size()) return;
    }
  }
};

/// The first `size` bytes, without an incomplete character at the end.
std::string_view beginning_of(std::string_view text, std::size_t size) {
  while (size > 0 && is_utf8_continuation(text[size])) --size;
  return text.substr(0, size);
}

} // namespace

tokenizer::tokenizer(std::shared_ptr<const tokenizer_parts> parts) : parts_(std::move(parts)) {
  PACELINE_CHECK(parts_ != nullptr, "a tokenizer is made of parts");
}

expected<std::vector<token_id>> tokenizer::encode(std::string_view text, encode_options options) const {
  if (text.size() > max_text_bytes)
    return error(errc::invalid_argument,
                 "text of " + std::to_string(text.size()) + " bytes exceeds the limit of 1 GiB");
  std::string well_formed;
  if (!is_well_formed_utf8(text)) {
    well_formed = replace_ill_formed_utf8(text);
    text = well_formed;
  }
  // A text with too many tokens exceeds the limit long before its end. Each prefix is half as long again as
  // the previous one.
  if (options.max_tokens < text.size())
    for (auto size = std::max(long_word_bytes, probe_bytes_a_token * options.max_tokens); size < text.size();
         size += size / 2) {
      auto beginning = encode_well_formed(beginning_of(text, size), options, probe_tail_bytes);
      if (!beginning || beginning->size() > options.max_tokens) return beginning;
    }
  return encode_well_formed(text, options, 0);
}

expected<std::vector<token_id>> tokenizer::encode_well_formed(std::string_view text,
                                                              const encode_options& options,
                                                              std::size_t untrusted_tail) const {
  std::vector<token_id> out;
  if (options.add_special) out = parts_->before;
  regex::scratch work;
  const stretch_encoder encode_stretch{*parts_, work, options.max_tokens, out};
  for (const auto& raw : parts_->raw_tokens.split(text, options.parse_special)) {
    if (encode_stretch.full()) return out;
    if (raw.token) {
      out.push_back(*raw.token);
      continue;
    }
    const bool begins_input = raw.range.begin == 0;
    auto normalized = parts_->normalize.apply(
        std::string(text.substr(raw.range.begin, raw.range.end - raw.range.begin)), work);
    if (!normalized) return std::move(normalized).error();
    for (const auto& segment : parts_->normalized_tokens.split(*normalized, options.parse_special)) {
      if (encode_stretch.full()) return out;
      if (segment.token) {
        out.push_back(*segment.token);
        continue;
      }
      const auto [begin, end] = segment.range;
      const bool ends_input = raw.range.end == text.size() && end == normalized->size();
      auto done = encode_stretch(normalized->substr(begin, end - begin), begins_input && begin == 0,
                                 ends_input ? untrusted_tail : 0);
      if (!done) return std::move(done).error();
    }
  }
  if (options.add_special && untrusted_tail == 0)
    out.insert(out.end(), parts_->after.begin(), parts_->after.end());
  return out;
}

std::string tokenizer::decode(std::span<const token_id> tokens, decode_options options) const {
  std::string bytes;
  for (const token_id token : tokens)
    if (!(options.skip_special && is_special(token))) bytes += piece(token);
  std::string_view text = bytes;
  if (strips_leading_space() && !options.continues_text && text.starts_with(' ')) text.remove_prefix(1);
  return replace_ill_formed_utf8(text);
}

std::string_view tokenizer::piece(token_id token) const noexcept {
  return contains(token) ? parts_->pieces[static_cast<std::size_t>(token.value)] : std::string_view();
}

std::string_view tokenizer::spelling(token_id token) const noexcept {
  return contains(token) ? (*parts_->tokens)[token] : std::string_view();
}

std::optional<token_id> tokenizer::find(std::string_view spelling) const noexcept {
  return parts_->tokens->find(spelling);
}

std::size_t tokenizer::size() const noexcept { return parts_->tokens->size(); }

token_type tokenizer::type(token_id token) const noexcept {
  return contains(token) ? parts_->types[static_cast<std::size_t>(token.value)] : token_type::unused;
}

bool tokenizer::is_special(token_id token) const noexcept { return is_special_type(type(token)); }

std::optional<token_id> tokenizer::bos() const noexcept { return parts_->bos; }
std::optional<token_id> tokenizer::eos() const noexcept { return parts_->eos; }
std::optional<token_id> tokenizer::pad() const noexcept { return parts_->pad; }
std::span<const token_id> tokenizer::eos_like() const noexcept { return parts_->eos_like; }

bool tokenizer::adds_bos() const noexcept {
  return parts_->bos &&
         std::find(parts_->before.begin(), parts_->before.end(), *parts_->bos) != parts_->before.end();
}

bool tokenizer::strips_leading_space() const noexcept { return parts_->strip_leading_space; }
std::uint64_t tokenizer::vocabulary_hash() const noexcept { return parts_->hash; }

void tokenizer_parts::finish() {
  PACELINE_CHECK(types.size() == tokens->size() && pieces.size() == tokens->size(),
                 "one type and piece a token");
  std::sort(eos_like.begin(), eos_like.end());
  eos_like.erase(std::unique(eos_like.begin(), eos_like.end()), eos_like.end());
  std::string bytes; // the lengths distinguish "a", "bc" from "ab", "c"
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto length = static_cast<std::uint32_t>(pieces[i].size());
    for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(length >> shift));
    bytes += pieces[i];
  }
  hash = XXH3_64bits(bytes.data(), bytes.size());
  const bool spells_all = std::visit(
      [](const auto& made) {
        if constexpr (requires { made.spells_all_bytes(); })
          return made.spells_all_bytes();
        else
          return false; // a run of unknown characters may be one token
      },
      model);
  if (spells_all) lengths = token_lengths(*tokens);
}

} // namespace paceline::tokenizer
