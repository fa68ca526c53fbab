#include "runtime/tokenizer/text/token_lengths.hpp"

#include "runtime/base/utf8.hpp"

#include <algorithm>

namespace paceline::tokenizer {

namespace {

constexpr std::size_t num_bytes = 256;
constexpr std::size_t num_hashes = std::size_t{1} << 22U; ///< half a MiB of bits

std::size_t byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

std::size_t hash_of(std::string_view left, std::string_view right) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL; // FNV-1a: at most eight bytes
  for (const auto part : {left, right})
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return (hash ^ (hash >> 29U)) % num_hashes;
}

} // namespace

token_lengths::token_lengths(const token_table& tokens)
    : of_byte_(num_bytes), of_pair_(num_bytes * num_bytes) {
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const auto spelling = tokens[token_id{static_cast<token_id::rep>(id)}];
    const auto length = static_cast<float>(spelling.size());
    for (std::size_t i = 0; i < spelling.size(); ++i) {
      auto& byte = of_byte_[byte_at(spelling, i)];
      byte = std::max(byte, length);
      if (i == 0) continue;
      auto& pair = of_pair_[byte_at(spelling, i - 1) * num_bytes + byte_at(spelling, i)];
      pair = std::max(pair, length);
    }
  }
  for (auto* lengths : {&of_byte_, &of_pair_})
    for (auto& length : *lengths) length = length > 0 ? 1 / length : 0;
}

std::size_t token_lengths::fewest_tokens(std::string_view text) const {
  if (of_byte_.empty() || text.empty()) return 0;
  double by_bytes = of_byte_[byte_at(text, 0)];
  double by_pairs = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    by_bytes += of_byte_[byte_at(text, i)];
    by_pairs += of_pair_[byte_at(text, i - 1) * num_bytes + byte_at(text, i)];
  }
  constexpr double rounding = 1 - 1e-6; // of reciprocals kept as floats
  return static_cast<std::size_t>(std::max(by_bytes, by_pairs / 1.5) * rounding);
}

token_neighbours::token_neighbours(const token_table& tokens) : seen_(num_hashes) {
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const auto spelling = tokens[token_id{static_cast<token_id::rep>(id)}];
    std::string_view left;
    for (std::size_t at = 0; at < spelling.size();) {
      const auto length = std::min(std::max<std::size_t>(utf8_length(spelling[at]), 1), spelling.size() - at);
      const auto right = spelling.substr(at, length);
      if (!left.empty()) seen_[hash_of(left, right)] = true;
      left = right;
      at += length;
    }
  }
}

bool token_neighbours::may_touch(std::string_view left, std::string_view right) const noexcept {
  return seen_.empty() || seen_[hash_of(left, right)];
}

} // namespace paceline::tokenizer
