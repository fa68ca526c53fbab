#include "protocol/wire/explanation.hpp"

#include "runtime/base/joined.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

namespace paceline::wire {

namespace {

std::string rounds(std::uint32_t count) {
  return std::to_string(count) + (count == 1 ? " round" : " rounds");
}

std::string with_two_digits(double number) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.begin(), text.end(), number, std::chars_format::fixed, 2);
  return {text.begin(), end.ptr};
}

std::string accepted_of(const speculation_stats& stats) {
  return std::to_string(stats.num_accepted_tokens) + " of " + std::to_string(stats.num_draft_tokens) +
         " draft tokens were accepted";
}

/// What happened in how many rounds. The sentence names the most frequent limit, and among equal ones the
/// first.
using limit = std::pair<std::uint32_t, std::string>;

std::string most_frequent(const std::vector<limit>& limits) {
  const auto most = std::max_element(limits.begin(), limits.end(),
                                     [](const auto& a, const auto& b) { return a.first < b.first; });
  return "what limited the speed most: in " + rounds(most->first) + " " + most->second;
}

void add_limits_of_verified(const speculation_stats& stats, std::vector<limit>& limits) {
  limits.emplace_back(stats.num_rounds - stats.num_full_rounds, "a draft token was rejected");
  limits.emplace_back(stats.num_full_rounds,
                      "the whole draft was accepted, so a longer one could have helped");
}

using candidate = draft_account::candidate;

/// The candidate whose drafts were chosen most often. If none was chosen, it is the one that promised most
/// for its time.
const candidate& most_important(const std::vector<candidate>& all) {
  const auto rate = [](const candidate& one) { return one.time > 0 ? one.tokens / one.time : 0; };
  return *std::max_element(all.begin(), all.end(), [&](const candidate& a, const candidate& b) {
    return a.num_chosen != b.num_chosen ? a.num_chosen < b.num_chosen : rate(a) < rate(b);
  });
}

std::string explain_auto(const speculation_stats& stats, const draft_account& account) {
  std::vector<std::string> names, chosen;
  for (const auto& one : account.candidates) {
    names.push_back(one.drafter);
    if (one.num_chosen > 0) chosen.push_back(one.drafter + " in " + std::to_string(one.num_chosen));
  }
  auto out = "auto weighed " + listed(names) + " in " + rounds(account.num_rounds) + "; ";
  if (stats.num_rounds == 0)
    out += "no draft was verified";
  else
    out += "drafts were verified in " + std::to_string(stats.num_rounds) + " (" + listed(chosen) + "), and " +
           accepted_of(stats);
  if (const auto& best = most_important(account.candidates); best.num_proposals > 0)
    out += "; a draft of " + best.drafter + " promised on average " +
           with_two_digits(best.tokens / best.num_proposals) + " times the tokens of a plain pass for " +
           with_two_digits(best.time / best.num_proposals) + " times its time";
  const auto told = stats.num_rounds + account.num_without_proposal + account.num_plain_to_measure;
  std::vector<limit> limits{
      {account.num_without_proposal, "no drafter proposed a token"},
      {account.num_rounds - std::min(account.num_rounds, told), "no draft was worth its time"}};
  add_limits_of_verified(stats, limits);
  limits.emplace_back(account.num_plain_to_measure, "a plain pass was run to measure its time");
  return out + "; " + most_frequent(limits);
}

} // namespace

std::string explain(const speculation_stats& stats) {
  if (stats.weighed)
    return stats.weighed->num_rounds > 0 && !stats.weighed->candidates.empty()
               ? explain_auto(stats, *stats.weighed)
               : "";
  if (stats.drafter.empty() || stats.num_open_rounds == 0) return {};
  auto out = stats.drafter + " could draft in " + rounds(stats.num_open_rounds) + "; ";
  if (stats.num_rounds == 0)
    out += "no draft was verified";
  else
    out += "drafts were verified in " + std::to_string(stats.num_rounds) + ", and " + accepted_of(stats);
  std::vector<limit> limits{
      {stats.num_open_rounds - std::min(stats.num_open_rounds, stats.num_rounds), "there was no draft"}};
  add_limits_of_verified(stats, limits);
  return out + "; " + most_frequent(limits);
}

} // namespace paceline::wire
