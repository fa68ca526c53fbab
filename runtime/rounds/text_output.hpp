#pragma once

#include "runtime/base/ids.hpp"

#include <memory>
#include <string>

namespace paceline::rounds {

/// Turns committed tokens into the text the client sees, and finds stop strings in it.
class text_output {
 public:
  virtual ~text_output() = default;
  struct piece {
    std::string text;     ///< whole characters that no stop string can take back any more
    bool stopped = false; ///< a stop string is complete
  };
  /// `may_stop` false: stop strings are text for now (min_tokens is not reached).
  virtual piece feed(token_id token, bool may_stop) = 0;
  /// What was held back, at the end.
  virtual std::string finish() = 0;
  /// Another one that has been fed the same: hypotheses of a beam search go apart.
  virtual std::unique_ptr<text_output> clone() const = 0;
};

} // namespace paceline::rounds
