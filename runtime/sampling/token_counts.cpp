#include "runtime/sampling/token_counts.hpp"

namespace paceline::sampling {

token_counts::entry& token_counts::entry_of(token_id token) {
  const auto [place, is_new] = index_.try_emplace(token, static_cast<std::uint32_t>(entries_.size()));
  if (is_new) entries_.push_back({.token = token});
  return entries_[place->second];
}

void token_counts::add_prompt(std::span<const token_id> tokens) {
  for (const token_id token : tokens) entry_of(token).prompt = true;
}

void token_counts::add_output(token_id token) { ++entry_of(token).output; }

std::uint32_t token_counts::in_output(token_id token) const noexcept {
  const auto place = index_.find(token);
  return place == index_.end() ? 0 : entries_[place->second].output;
}

bool token_counts::in_context(token_id token) const noexcept { return index_.contains(token); }

} // namespace paceline::sampling
