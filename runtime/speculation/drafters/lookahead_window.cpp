#include "runtime/speculation/drafters/lookahead_window.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>

namespace paceline::speculation {

void ngram_pool::add(std::span<const token_id> ngram) {
  PACELINE_CHECK(ngram.size() >= 2, "an n-gram has a token that follows");
  auto& known = by_first_[ngram.front()];
  const auto rest = ngram.subspan(1);
  const auto same =
      std::ranges::find_if(known, [&](const auto& one) { return std::ranges::equal(one, rest); });
  if (same != known.end()) {
    std::rotate(same, same + 1, known.end());
    return;
  }
  if (known.size() >= max_per_token_) known.erase(known.begin());
  known.emplace_back(rest.begin(), rest.end());
}

std::vector<std::vector<token_id>> ngram_pool::followers(token_id first) const {
  const auto known = by_first_.find(first);
  if (known == by_first_.end()) return {};
  return {known->second.rbegin(), known->second.rend()};
}

lookahead_window::lookahead_window(std::uint32_t width, std::uint32_t ngram_length)
    : width_(width), num_levels_(ngram_length - 1) {
  PACELINE_CHECK(width >= 1 && ngram_length >= 2, "a window has a column and n-grams two tokens");
  levels_.assign(num_levels_, std::vector<token_id>(width_));
}

void lookahead_window::fill(const std::function<token_id()>& guess) {
  for (auto& level : levels_)
    for (token_id& token : level) token = guess();
}

void lookahead_window::add_to(draft& carrier) const {
  const auto first = static_cast<std::int32_t>(carrier.num_rows());
  auto behind = token_tree::root;
  for (const token_id token : levels_[0]) behind = carrier.add_probe(token, behind);
  for (std::uint32_t column = 0; column < width_; ++column) {
    auto parent = first + static_cast<std::int32_t>(column);
    for (std::uint32_t level = 1; level < num_levels_; ++level)
      parent = carrier.add_probe(levels_[level][column], parent);
  }
}

void lookahead_window::advance(std::uint32_t num_committed,
                               const std::function<token_id(std::uint32_t row)>& said,
                               const std::function<void(std::span<const token_id> ngram)>& report,
                               const std::function<token_id()>& guess) {
  std::vector<token_id> fresh(width_);
  for (std::uint32_t column = 0; column < width_; ++column) {
    const token_id next = said(row_of(num_levels_ - 1, column));
    fresh[column] = next.value < 0 ? guess() : next;
    std::vector<token_id> ngram;
    for (const auto& level : levels_) ngram.push_back(level[column]);
    ngram.push_back(fresh[column]);
    if (next.value >= 0) report(ngram);
  }
  // Level j + 1 continues level j, so moving the levels up moves every column by one position.
  std::rotate(levels_.begin(), levels_.begin() + 1, levels_.end());
  levels_.back() = std::move(fresh);
  const std::uint32_t num_passed = std::min(num_committed - std::min(num_committed, 1U), width_);
  for (auto& level : levels_) {
    std::rotate(level.begin(), level.begin() + num_passed, level.end());
    std::generate(level.end() - num_passed, level.end(), guess);
  }
}

} // namespace paceline::speculation
