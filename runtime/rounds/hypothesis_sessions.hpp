#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <memory>
#include <span>
#include <vector>

namespace paceline::rounds {

/// Sessions of one drafter for the hypotheses of one beam search. For drafters without cells, whose sessions
/// only depend on the text that they have followed. Used by programs of one stream.
class hypothesis_sessions {
 public:
  /// Returns one session for each of `outputs`, the output tokens of the hypotheses: the session of the
  /// previous call that has followed the longest beginning of this output, or a new one. Different hypotheses
  /// get different sessions; unused sessions are dropped. The pointers are valid until the next call.
  std::vector<speculation::drafter_session*> follow(std::span<const std::vector<token_id>> outputs,
                                                    speculation::drafter& drafter, request_id request);

 private:
  struct followed {
    std::vector<token_id> output; ///< the output for which the session was last asked
    std::unique_ptr<speculation::drafter_session> session;
  };
  std::vector<followed> sessions_;
};

} // namespace paceline::rounds
