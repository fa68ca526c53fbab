#pragma once

#include "runtime/base/token_event.hpp"

#include <functional>
#include <string>

namespace paceline::apps {

struct token_style;

/// Rounds for a person, one line each: what was drafted, what of it was accepted, and the token the target
/// added, in colour where `colour` is set. Below the line of a draft tree its branches, a node a line.
class trace_view {
 public:
  /// `spelling`: a token's text.
  trace_view(std::function<std::string(token_id)> spelling, bool colour);

  /// The lines of one event; empty if it has no round.
  std::string show(const token_event& event);
  /// What the colours mean, and the totals of the rounds shown.
  std::string summary() const;

 private:
  std::string painted(const token_style& how, token_id token) const;
  std::string branches(const round_trace& round) const;
  static std::string weighed(const draft_choice& choice);

  std::function<std::string(token_id)> spelling_;
  bool colour_;
  std::uint64_t num_rounds_ = 0, num_committed_ = 0, num_drafted_ = 0, num_accepted_ = 0;
};

} // namespace paceline::apps
