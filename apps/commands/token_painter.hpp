#pragma once

#include "apps/commands/token_origin.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/tokenizer/incremental_decoder.hpp"

#include <deque>
#include <string>
#include <utility>

namespace paceline::apps {

/// Colours the text of a generation by the origin of its tokens. Without colours, the text alone. For one
/// generation whose requests have a trace.
class token_painter {
 public:
  token_painter(const tokenizer::tokenizer& vocabulary, bool colour)
      : decoder_(vocabulary, {.skip_special = true, .continues_text = true}), colour_(colour) {}

  /// The text of one event.
  std::string show(const token_event& event);

 private:
  tokenizer::incremental_decoder decoder_;
  bool colour_;
  /// Text of tokens, and what of it `event.text` has not brought yet: it may wait for a stop string.
  std::deque<std::pair<token_origin, std::string>> spans_;
};

} // namespace paceline::apps
