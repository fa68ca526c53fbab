#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/sampling/pipeline.hpp"

#include <cstdint>

namespace paceline::scheduling {

/// What a request asks for, and the resulting limits. Immutable, so any thread may read it at any time.
class request_terms {
 public:
  /// `context_length`: positions that the target and the pool can hold. Throws check_failure unless the
  /// prompt has 1 to `context_length` tokens. `most`: the strongest guarantee that the target can give
  /// (weaker in fast mode).
  request_terms(request_id id, generation_request request, std::uint32_t context_length, time_point submitted,
                paceline::guarantee most = paceline::guarantee::tokens);

  request_id id() const noexcept { return id_; }
  /// The request as submitted, except that a beam search has temperature 0 and rule `coupled`: it draws no
  /// samples.
  const generation_request& request() const noexcept { return request_; }
  /// Turns logits into tokens by the request's settings.
  const sampling::pipeline& pipeline() const noexcept { return pipeline_; }
  std::uint32_t prompt_length() const noexcept { return prompt_length_; }
  /// Largest number of output tokens: max_tokens, or less if the context ends earlier.
  std::uint32_t max_output() const noexcept { return max_output_; }
  time_point submitted() const noexcept { return submitted_; }
  /// `span` relative to `submitted()`, in whole microseconds.
  work_span since_submission(const time_span& span) const;
  /// The guarantee that its reply reports.
  paceline::guarantee guarantee() const noexcept { return guarantee_; }
  /// True for a stop id, and for an EOS id unless the request ignores EOS.
  bool ends_with(token_id token) const;

 private:
  request_id id_;
  generation_request request_;
  sampling::pipeline pipeline_;
  std::uint32_t prompt_length_;
  std::uint32_t max_output_;
  time_point submitted_;
  paceline::guarantee guarantee_;
};

} // namespace paceline::scheduling
