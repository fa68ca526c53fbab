#pragma once

#include "apps/commands/token_origin.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/tokenizer/incremental_decoder.hpp"

#include <deque>
#include <string>
#include <utility>

namespace paceline::apps {

/// Colours the text of one generation by the origin of its tokens; without `colour` the text is unchanged.
/// The request must ask for a trace.
class token_painter {
 public:
  token_painter(const tokenizer::tokenizer& vocabulary, bool colour)
      : decoder_(vocabulary, {.skip_special = true, .continues_text = true}), colour_(colour) {}

  /// The text of one event.
  std::string show(const token_event& event);

 private:
  tokenizer::incremental_decoder decoder_;
  bool colour_;
  /// Origin and text of tokens whose text has not appeared in `event.text` yet. Text is held back while it
  /// may be the beginning of a stop string.
  std::deque<std::pair<token_origin, std::string>> spans_;
};

} // namespace paceline::apps
