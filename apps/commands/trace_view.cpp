#include "apps/commands/trace_view.hpp"

#include "apps/terminal_text.hpp"

#include <algorithm>
#include <cstdio>

namespace paceline::apps {

namespace {

/// The text with line breaks and tabs as in source code, without other control characters, and with a visible
/// space at its beginning.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else
      out += c;
  }
  out = for_terminal(out);
  if (out.starts_with(' ')) out.replace(0, 1, "␣");
  return out;
}

std::string column(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

} // namespace

trace_view::trace_view(std::function<std::string(token_id)> spelling, bool colour)
    : spelling_(std::move(spelling)), colour_(colour) {}

std::string trace_view::signed_token(token_origin origin, token_id token) const {
  return painted(origin, std::string(style_of(origin).sign) + quoted(spelling_(token)), colour_);
}

std::string trace_view::show(const token_event& event) {
  if (!event.trace || event.tokens.empty()) return {};
  const round_trace& round = *event.trace;
  const auto num_kept = num_accepted(event);
  ++num_rounds_;
  num_committed_ += event.tokens.size();
  num_drafted_ += round.draft_tokens.size();
  num_accepted_ += num_kept;

  const std::string drafted =
      round.draft_tokens.empty() ? "plain" : round.drafter + " " + std::to_string(round.draft_tokens.size());
  std::string line = column(std::to_string(num_rounds_), 5) + column(drafted, 12) + " |";
  for (std::size_t i = 0; i < num_kept; ++i)
    line += " " + signed_token(token_origin::accepted, event.tokens[i]);
  const bool chain = std::ranges::adjacent_find(round.parents, [](auto a, auto b) { return b != a + 1; }) ==
                     round.parents.end();
  if (chain)
    for (std::size_t i = round.accepted.size(); i < round.draft_tokens.size(); ++i)
      line += " " + signed_token(token_origin::rejected, round.draft_tokens[i]);
  if (event.tokens.size() > num_kept)
    line += " " + signed_token(origin_of(event, num_kept), event.tokens.back());
  if (round.choice) line += "  (" + weighed(*round.choice) + ")";
  return line + "\n" + (chain ? "" : branches(round));
}

/// What "auto" expected of each draft, as tokens and passes.
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
             signed_token(kept ? token_origin::accepted : token_origin::rejected, round.draft_tokens[node]) +
             "\n";
      self(self, index, depth + 1);
    }
  };
  visit(visit, -1, 0);
  return out;
}

std::string trace_view::summary() const {
  std::string legend;
  for (const auto origin :
       {token_origin::accepted, token_origin::rejected, token_origin::recovered, token_origin::bonus}) {
    const auto style = style_of(origin);
    legend += (legend.empty() ? "" : " ") +
              painted(origin, std::string(style.sign) + std::string(style.name), colour_);
  }
  char figures[160];
  std::snprintf(
      figures, sizeof figures, "%llu rounds, %.2f tokens a round, %llu draft tokens, %.0f %% accepted\n",
      static_cast<unsigned long long>(num_rounds_),
      num_rounds_ == 0 ? 0.0 : static_cast<double>(num_committed_) / static_cast<double>(num_rounds_),
      static_cast<unsigned long long>(num_drafted_),
      num_drafted_ == 0 ? 0.0
                        : 100.0 * static_cast<double>(num_accepted_) / static_cast<double>(num_drafted_));
  return legend + "\n" + figures;
}

} // namespace paceline::apps
