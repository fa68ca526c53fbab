#include "runtime/speculation/drafters/token_ranking.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>

namespace paceline::speculation {

void token_ranking::add(token_id token, std::uint32_t weight, std::size_t max_tokens) {
  const auto known = std::ranges::find(entries_, token, &entry::token);
  if (known != entries_.end()) {
    known->count += weight;
  } else if (entries_.size() < max_tokens) {
    entries_.push_back({token, weight});
  } else {
    const auto rarest = std::ranges::max_element(entries_, before);
    *rarest = {token, rarest->count + weight};
  }
}

token_id token_ranking::best() const {
  PACELINE_CHECK(!entries_.empty(), "a ranking of nothing");
  return std::ranges::min_element(entries_, before)->token;
}

void token_ranking::add_all(const token_ranking& other, std::size_t max_tokens) {
  for (const entry& one : other.entries_) add(one.token, static_cast<std::uint32_t>(one.count), max_tokens);
}

draft_distribution token_ranking::distribution() const {
  auto sorted = entries_;
  std::ranges::sort(sorted, before);
  if (sorted.size() > draft_distribution::max_entries) sorted.resize(draft_distribution::max_entries);
  double total = 0;
  for (const entry& one : sorted) total += static_cast<double>(one.count);
  draft_distribution result;
  for (const entry& one : sorted) {
    result.tokens.push_back(one.token);
    result.probs.push_back(static_cast<float>(static_cast<double>(one.count) / total));
  }
  return result;
}

} // namespace paceline::speculation
