#include "runtime/tokenizer/models/spm_model.hpp"

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/models/merge_in_windows.hpp"
#include "runtime/tokenizer/text/byte_alphabet.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace paceline::tokenizer {

namespace {

/// A number that decreases as the score increases.
std::uint32_t priority_of(float score) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F); // -0 and 0 are the same score
  const std::uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return ~ascending;
}

} // namespace

spm_model::spm_model(std::shared_ptr<const token_table> tokens, const std::vector<float>& scores,
                     std::optional<token_id> unknown)
    : tokens_(std::move(tokens)), neighbours_(*tokens_), unknown_(unknown) {
  priorities_.reserve(tokens_->size());
  for (const float score : scores) priorities_.push_back(priority_of(score));
  priorities_.resize(tokens_->size(), priority_of(0.0F));
  byte_tokens_.reserve(256);
  for (unsigned value = 0; value < 256; ++value) {
    const auto byte = static_cast<std::uint8_t>(value);
    const char raw = static_cast<char>(byte);
    auto token = tokens_->find(hex_byte_spelling(byte));
    byte_tokens_.push_back(token ? token : tokens_->find(std::string_view(&raw, 1)));
  }
}

void spm_model::encode(std::string_view text, merge_list& work, std::vector<token_id>& out,
                       std::size_t max_tokens) const {
  for (std::size_t begin = 0; begin < text.size() && out.size() <= max_tokens;) {
    const auto end = end_of_stretch(text, begin);
    encode_stretch(text.substr(begin, end - begin), work, out, max_tokens);
    begin = end;
  }
}

std::size_t spm_model::end_of_stretch(std::string_view text, std::size_t begin) const {
  // A stretch costs a call, and shorter stretches would not gain that much.
  constexpr std::size_t fewest_bytes = 64;
  std::size_t previous = begin;
  std::size_t at = begin + utf8_length(text[begin]);
  while (at < text.size()) {
    const std::size_t length = utf8_length(text[at]);
    if (at - begin >= fewest_bytes &&
        !neighbours_.may_touch(text.substr(previous, at - previous), text.substr(at, length)))
      return at;
    previous = at;
    at += length;
  }
  return text.size();
}

bool spm_model::spells_all_bytes() const {
  return std::all_of(byte_tokens_.begin(), byte_tokens_.end(),
                     [](const auto& token) { return token.has_value(); });
}

void spm_model::encode_stretch(std::string_view text, merge_list& work, std::vector<token_id>& out,
                               std::size_t max_tokens) const {
  const auto append = [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end;) {
      const std::size_t length = utf8_length(text[at]);
      work.append(0, at, length); // the spelling alone determines what a node is
      at += length;
    }
  };
  const auto find = [&](const auto& left, const auto& right) -> std::optional<merge_list::merge> {
    const std::size_t bytes = left.bytes + right.bytes;
    if (bytes > tokens_->longest_bytes()) return std::nullopt;
    const auto token = tokens_->find(text.substr(left.begin, bytes));
    if (!token) return std::nullopt;
    return merge_list::merge{priorities_[static_cast<std::size_t>(token->value)], 0};
  };
  const auto before = out.size();
  const auto visit = [&](const merge_list::node& node) {
    emit(text.substr(node.begin, node.bytes), out);
    return out.size() <= max_tokens;
  };
  merge_in_windows(text, work, append, find, visit, [&] { out.resize(before); });
}

void spm_model::emit(std::string_view spelling, std::vector<token_id>& out) const {
  if (const auto token = tokens_->find(spelling)) {
    out.push_back(*token);
    return;
  }
  for (const char byte : spelling) {
    if (const auto token = byte_tokens_[static_cast<unsigned char>(byte)]) {
      out.push_back(*token);
    } else if (unknown_) {
      out.push_back(*unknown_);
      return; // one unknown token per character, not per byte
    }
  }
}

} // namespace paceline::tokenizer
