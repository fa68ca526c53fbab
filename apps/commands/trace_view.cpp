#include "apps/commands/trace_view.hpp"

#include <algorithm>
#include <cstdio>

namespace paceline::apps {

/// How a kind of token is shown: its colour, and a sign before it that distinguishes it without colours.
struct token_style {
  const char* escape;
  const char* sign;
};

namespace {

constexpr const char* reset = "\x1b[0m";

/// Line breaks and the like as in source code, with visible spaces at the ends.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 32)
      out += '?';
    else
      out += c;
  }
  if (out.starts_with(' ')) out.replace(0, 1, "␣");
  return out;
}

std::string column(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

} // namespace

static constexpr token_style accepted_style{"\x1b[32m", "="};
static constexpr token_style rejected_style{"\x1b[31;9m", "~"};
static constexpr token_style recovered_style{"\x1b[33m", ">"};
static constexpr token_style bonus_style{"\x1b[36m", "+"};
static constexpr token_style plain_style{"", " "};

trace_view::trace_view(std::function<std::string(token_id)> spelling, bool colour)
    : spelling_(std::move(spelling)), colour_(colour) {}

std::string trace_view::painted(const token_style& how, token_id token) const {
  const std::string text = how.sign + quoted(spelling_(token));
  return colour_ && *how.escape != '\0' ? how.escape + text + reset : text;
}

std::string trace_view::show(const token_event& event) {
  if (!event.trace || event.tokens.empty()) return {};
  const round_trace& round = *event.trace;
  const auto num_accepted = std::min<std::size_t>(round.accepted.size(), event.tokens.size());
  ++num_rounds_;
  num_committed_ += event.tokens.size();
  num_drafted_ += round.draft_tokens.size();
  num_accepted_ += num_accepted;

  const std::string drafted =
      round.draft_tokens.empty() ? "plain" : round.drafter + " " + std::to_string(round.draft_tokens.size());
  std::string line = column(std::to_string(num_rounds_), 5) + column(drafted, 12) + " |";
  for (std::size_t i = 0; i < num_accepted; ++i) line += " " + painted(accepted_style, event.tokens[i]);
  const bool chain = std::ranges::adjacent_find(round.parents, [](auto a, auto b) { return b != a + 1; }) ==
                     round.parents.end();
  if (chain)
    for (std::size_t i = round.accepted.size(); i < round.draft_tokens.size(); ++i)
      line += " " + painted(rejected_style, round.draft_tokens[i]);
  if (event.tokens.size() > num_accepted) {
    const bool any = !round.draft_tokens.empty();
    line += " " + painted(!any          ? plain_style
                          : round.bonus ? bonus_style
                                        : recovered_style,
                          event.tokens.back());
  }
  if (round.choice) line += "  (" + weighed(*round.choice) + ")";
  return line + "\n" + (chain ? "" : branches(round));
}

/// What "auto" expected of each draft: tokens for passes.
std::string trace_view::weighed(const draft_choice& choice) {
  std::string out = choice.plain_to_measure ? "plain, to measure it" : "";
  for (const auto& option : choice.options) {
    char text[64];
    std::snprintf(text, sizeof text, " %.1f tokens for %.2f passes",
                  static_cast<double>(option.expected_tokens), static_cast<double>(option.cost));
    out += (out.empty() ? "" : ", ") + option.drafter + (option.num_tokens > 0 ? text : " not worth a row");
  }
  return out.empty() ? "no draft" : out;
}

std::string trace_view::branches(const round_trace& round) const {
  std::string out;
  // Depth first, so that each branch reads downwards.
  const auto visit = [&](const auto& self, std::int32_t parent, std::size_t depth) -> void {
    for (std::size_t node = 0; node < round.parents.size(); ++node) {
      if (round.parents[node] != parent) continue;
      const auto index = static_cast<std::int32_t>(node);
      const bool kept = std::ranges::find(round.accepted, index) != round.accepted.end();
      out += std::string(20 + 2 * depth, ' ') +
             painted(kept ? accepted_style : rejected_style, round.draft_tokens[node]) + "\n";
      self(self, index, depth + 1);
    }
  };
  visit(visit, -1, 0);
  return out;
}

std::string trace_view::summary() const {
  const auto sample = [this](const token_style& how, const char* name) {
    const std::string text = std::string(how.sign) + name;
    return colour_ ? how.escape + text + reset : text;
  };
  char figures[160];
  std::snprintf(
      figures, sizeof figures, "%llu rounds, %.2f tokens a round, %llu draft tokens, %.0f %% accepted\n",
      static_cast<unsigned long long>(num_rounds_),
      num_rounds_ == 0 ? 0.0 : static_cast<double>(num_committed_) / static_cast<double>(num_rounds_),
      static_cast<unsigned long long>(num_drafted_),
      num_drafted_ == 0 ? 0.0
                        : 100.0 * static_cast<double>(num_accepted_) / static_cast<double>(num_drafted_));
  return sample(accepted_style, "accepted") + " " + sample(rejected_style, "rejected") + " " +
         sample(recovered_style, "recovered") + " " + sample(bonus_style, "bonus") + "\n" + figures;
}

} // namespace paceline::apps
