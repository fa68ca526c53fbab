#include "runtime/scheduling/committed_log.hpp"

#include <utility>

namespace paceline::scheduling {

committed_log::committed_log(std::shared_ptr<const request_terms> terms)
    : terms_(std::move(terms)), tokens_(terms_->request().prompt) {
  tokens_.reserve(terms_->prompt_length() + terms_->max_output());
}

const sampling::token_counts& committed_log::counts() const {
  if (!std::exchange(counted_, true))
    counts_.add_prompt(tokens_); // nothing is committed yet: the writer calls this first
  return counts_;
}

} // namespace paceline::scheduling
