#pragma once

#include "runtime/base/request.hpp"
#include "runtime/base/token_event.hpp"

#include <algorithm>
#include <vector>

namespace paceline::server {

/// The tokens that end a request and are not part of its text. In chats and responses, OpenAI's
/// log-probabilities do not include these tokens. In legacy completions, the log-probabilities include them,
/// and evaluation tools rely on this.
class end_tokens {
 public:
  end_tokens() = default;
  explicit end_tokens(const stop_params& stop) : ids_(stop.stop_ids) {
    if (!stop.ignore_eos) ids_.insert(ids_.end(), stop.eos_ids.begin(), stop.eos_ids.end());
  }

  /// The log-probabilities of the event's tokens, except the token that ended the request.
  std::vector<token_logprob> scores_of_text(const token_event& event) const {
    auto scores = event.logprobs;
    const bool ends = event.finish == finish_reason::stop && !scores.empty() &&
                      std::find(ids_.begin(), ids_.end(), scores.back().token) != ids_.end();
    if (ends) scores.pop_back();
    return scores;
  }

 private:
  std::vector<token_id> ids_;
};

} // namespace paceline::server
