#pragma once

#include "apps/commands/token_origin.hpp"
#include "runtime/base/token_event.hpp"

#include <functional>
#include <string>

namespace paceline::apps {

/// Formats rounds for users, one line for each: the draft tokens, which of them were accepted, and the token
/// that the target added; coloured if `colour` is set. The branches of a draft tree follow in lines of their
/// own, one for each node.
class trace_view {
 public:
  /// `spelling` returns a token's text.
  trace_view(std::function<std::string(token_id)> spelling, bool colour);

  /// The lines of one event; empty if it has no round.
  std::string show(const token_event& event);
  /// The meaning of the colours, and totals over the rounds shown.
  std::string summary() const;

 private:
  std::string signed_token(token_origin origin, token_id token) const;
  std::string branches(const round_trace& round) const;
  static std::string weighed(const draft_choice& choice);

  std::function<std::string(token_id)> spelling_;
  bool colour_;
  std::uint64_t num_rounds_ = 0, num_committed_ = 0, num_drafted_ = 0, num_accepted_ = 0;
};

} // namespace paceline::apps
