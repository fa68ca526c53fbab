#include "apps/chat/race.hpp"

#include <algorithm>
#include <cstdio>

namespace paceline::apps {

namespace {

std::string line_of(const race_run& run, int width) {
  const auto count = run.result.tokens.size();
  char text[160];
  std::snprintf(text, sizeof text, "%-*s  %zu tokens in %.2f s, %.1f tokens/s", width, run.name.c_str(),
                count, run.time.count(), static_cast<double>(count) / std::max(run.time.count(), 1e-9));
  return text;
}

} // namespace

std::string race_report(const race_run& plain, const race_run& speculative) {
  const auto& ours = speculative.result.tokens;
  const auto& theirs = plain.result.tokens;
  const auto same = std::ranges::mismatch(ours, theirs).in1 - ours.begin();
  const auto width = static_cast<int>(std::max(plain.name.size(), speculative.name.size()));
  char text[160];
  std::string out = line_of(plain, width) + "\n" + line_of(speculative, width);
  std::snprintf(text, sizeof text, ": %.2f times as fast\n", plain.time / speculative.time);
  out += text;
  std::snprintf(text, sizeof text, "identical: %td of %zu tokens\n", same,
                std::max(ours.size(), theirs.size()));
  return out + text;
}

} // namespace paceline::apps
