#pragma once

#include "apps/commands/token_origin.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/tokenizer/incremental_decoder.hpp"

#include <deque>
#include <string>
#include <utility>

namespace paceline::apps {

/// How the text of a generation is shown.
enum class painting : std::uint8_t {
  none,     ///< as it is, for files and pipes
  plain,    ///< for a terminal, without control characters
  coloured, ///< like `plain`, each token in the colour of its origin; the request must ask for a trace
};

/// The painting for standard output: `none` for files and pipes, `coloured` if `wants_origins` is set and the
/// user allows colours (`wants_colour`), and otherwise `plain`.
painting painting_for_output(bool wants_origins);

/// Shows the text of one generation.
class token_painter {
 public:
  token_painter(const tokenizer::tokenizer& vocabulary, painting how)
      : decoder_(vocabulary, {.skip_special = true, .continues_text = true}), how_(how) {}

  /// The text of one event.
  std::string show(const token_event& event);

 private:
  tokenizer::incremental_decoder decoder_;
  painting how_;
  /// Origin and text of tokens whose text has not appeared in `event.text` yet. Text is held back while it
  /// may be the beginning of a stop string.
  std::deque<std::pair<token_origin, std::string>> spans_;
};

} // namespace paceline::apps
