#include "runtime/tokenizer/models/bpe_model.hpp"

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/models/merge_in_windows.hpp"
#include "runtime/tokenizer/text/byte_alphabet.hpp"

#include <algorithm>

namespace paceline::tokenizer {

namespace {

constexpr char32_t num_short_characters =
    0x800; ///< one or two bytes of UTF-8: the whole byte alphabet and more

} // namespace

bpe_model::bpe_model(std::shared_ptr<const token_table> tokens,
                     const std::vector<std::pair<std::string, std::string>>& merges, bpe_rules rules)
    : tokens_(std::move(tokens)), merges_(merges.size()), rules_(rules) {
  const auto symbol_of = [&](std::string_view spelling) {
    if (const auto token = tokens_->find(spelling)) return token->value;
    return static_cast<std::int32_t>(tokens_->size()) + extra_symbols_.intern(spelling).value;
  };
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    if (left.empty() || right.empty()) continue;
    merges_.insert(symbol_of(left), symbol_of(right), static_cast<std::uint32_t>(rank),
                   symbol_of(left + right));
  }

  short_characters_.resize(num_short_characters);
  for (char32_t c = 0; c < num_short_characters; ++c) {
    std::string spelling;
    append_utf8(spelling, c);
    const auto extra = extra_symbols_.find(spelling);
    const auto token = tokens_->find(spelling);
    short_characters_[c] = token   ? token->value
                           : extra ? static_cast<std::int32_t>(tokens_->size()) + extra->value
                                   : -1;
  }
  if (rules_.byte_fallback)
    for (unsigned byte = 0; byte < 256; ++byte)
      byte_tokens_.push_back(tokens_->find(hex_byte_spelling(static_cast<std::uint8_t>(byte))));
}

void bpe_model::encode(std::string_view word, merge_list& work, std::vector<token_id>& out,
                       std::size_t max_tokens) const {
  if (rules_.ignore_merges || (rules_.whole_newlines && word.find_first_not_of('\n') == word.npos)) {
    if (const auto token = tokens_->find(word)) {
      out.push_back(*token);
      return;
    }
  }
  const auto append = [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end;) {
      const utf8_unit unit = read_utf8(word, at);
      work.append(symbol_of_character(word.substr(at, unit.num_bytes), unit.code_point), at, unit.num_bytes);
      at += unit.num_bytes;
    }
  };
  const auto find = [this](const auto& left, const auto& right) -> std::optional<merge_list::merge> {
    const auto* merge = merges_.find(left.symbol, right.symbol);
    if (merge == nullptr) return std::nullopt;
    return merge_list::merge{merge->rank, merge->result};
  };
  const auto before = out.size();
  bool after_unknown = false; // within this word: runs are not fused across words
  const auto visit = [&](const merge_list::node& node) {
    const std::size_t so_far = out.size();
    emit(word.substr(node.begin, node.bytes), node.symbol, out);
    const bool is_unknown = rules_.unknown && out.size() == so_far + 1 && out.back() == *rules_.unknown;
    if (is_unknown && after_unknown && rules_.fuse_unknown) out.pop_back();
    after_unknown = is_unknown;
    return out.size() <= max_tokens;
  };
  const auto restart = [&] {
    out.resize(before);
    after_unknown = false;
  };
  merge_in_windows(word, work, append, find, visit, restart);
}

bool bpe_model::spells_all_bytes() const {
  if (rules_.byte_fallback)
    return std::all_of(byte_tokens_.begin(), byte_tokens_.end(),
                       [](const auto& token) { return token.has_value(); });
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto raw = static_cast<char>(byte);
    std::string spelling;
    append_byte_spelling(spelling, {&raw, 1});
    if (!tokens_->find(spelling)) return false;
  }
  return true;
}

std::int32_t bpe_model::symbol_of_character(std::string_view character, char32_t code_point) const noexcept {
  if (code_point < num_short_characters) return short_characters_[code_point];
  if (const auto token = tokens_->find(character)) return token->value;
  const auto extra = extra_symbols_.find(character);
  return extra ? static_cast<std::int32_t>(tokens_->size()) + extra->value : -1;
}

void bpe_model::emit(std::string_view spelling, std::int32_t symbol, std::vector<token_id>& out) const {
  if (is_token(symbol)) {
    out.push_back(token_id{symbol});
    return;
  }
  for (std::size_t at = 0; at < spelling.size();) {
    const std::size_t length = utf8_length(spelling[at]);
    emit_unmerged(spelling.substr(at, length), out);
    at += length;
  }
}

void bpe_model::emit_unmerged(std::string_view character, std::vector<token_id>& out) const {
  if (const auto token = tokens_->find(character)) {
    out.push_back(*token);
    return;
  }
  if (rules_.byte_fallback) {
    const auto token_of = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
    if (std::all_of(character.begin(), character.end(),
                    [&](char byte) { return token_of(byte).has_value(); })) {
      for (const char byte : character) out.push_back(*token_of(byte));
      return;
    }
  }
  if (rules_.unknown) out.push_back(*rules_.unknown);
}

} // namespace paceline::tokenizer
