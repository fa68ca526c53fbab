#pragma once

#include "runtime/base/ids.hpp"

#include <memory>
#include <optional>
#include <string>

namespace paceline::rounds {

/// Turns committed tokens into the text the client sees, and finds stop strings in it.
class text_output {
 public:
  virtual ~text_output() = default;
  struct piece {
    std::string text; ///< whole characters that can no longer become part of a stop string
    std::optional<std::string> stop_string; ///< a stop string that is now complete: the text ends before it
  };
  /// Adds a token and returns the text that it completes. `may_stop` false: stop strings do not end the text
  /// yet (min_tokens is not reached).
  virtual piece feed(token_id token, bool may_stop) = 0;
  /// Ends the text: returns what was held back.
  virtual std::string finish() = 0;
  /// A copy in the same state, for the hypotheses of a beam search.
  virtual std::unique_ptr<text_output> clone() const = 0;
};

} // namespace paceline::rounds
