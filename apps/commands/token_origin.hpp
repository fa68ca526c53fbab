#pragma once

#include "runtime/base/token_event.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::apps {

/// Where a token of a round came from.
enum class token_origin : std::uint8_t {
  plain,     ///< the target's, in a round without a draft
  accepted,  ///< drafted and kept by verification
  rejected,  ///< drafted but not kept
  recovered, ///< the target's, in place of the first rejected token
  bonus,     ///< the target's, after a draft that was accepted as a whole
};

/// How an origin is shown.
struct token_style {
  std::string_view escape; ///< terminal escape sequence of its colour; empty: no colour
  std::string_view sign;   ///< mark that shows the origin where there are no colours
  std::string_view name;
};

inline constexpr token_style style_of(token_origin origin) {
  switch (origin) {
  case token_origin::accepted:
    return {"\x1b[32m", "=", "accepted"};
  case token_origin::rejected:
    return {"\x1b[31;9m", "~", "rejected"};
  case token_origin::recovered:
    return {"\x1b[33m", ">", "recovered"};
  case token_origin::bonus:
    return {"\x1b[36m", "+", "bonus"};
  case token_origin::plain:
    break;
  }
  return {"", " ", "plain"};
}

/// `text` in its colour, if `colour` is set.
inline std::string painted(token_origin origin, std::string_view text, bool colour) {
  const auto escape = style_of(origin).escape;
  if (!colour || escape.empty() || text.empty()) return std::string(text);
  return std::string(escape).append(text).append("\x1b[0m");
}

/// Number of the event's tokens that are accepted draft tokens; 0 if it has no trace.
inline std::size_t num_accepted(const token_event& event) {
  return event.trace ? std::min(event.trace->accepted.size(), event.tokens.size()) : 0;
}

/// Origin of `event.tokens[index]`; plain if the event has no trace.
inline token_origin origin_of(const token_event& event, std::size_t index) {
  if (!event.trace || event.trace->draft_tokens.empty()) return token_origin::plain;
  if (index < num_accepted(event)) return token_origin::accepted;
  return event.trace->bonus ? token_origin::bonus : token_origin::recovered;
}

} // namespace paceline::apps
