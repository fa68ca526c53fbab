#include "runtime/scheduling/request_terms.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace paceline::scheduling {

namespace {

/// A beam search draws no samples. So its drafters must propose likely tokens, and its steps replace the
/// verification rule.
generation_request without_draws(generation_request request) {
  if (request.beams.width == 0) return request;
  request.sampling.temperature = 0;
  request.speculation.rule = verification_rule::coupled;
  return request;
}

} // namespace

request_terms::request_terms(request_id id, generation_request request, std::uint32_t context_length,
                             time_point submitted, paceline::guarantee most)
    : id_(id), request_(without_draws(std::move(request))), pipeline_(request_.sampling, request_.stop),
      prompt_length_(static_cast<std::uint32_t>(request_.prompt.size())), submitted_(submitted),
      guarantee_(std::max(guarantee_of(request_.speculation.rule), most)) {
  PACELINE_CHECK(prompt_length_ > 0 && prompt_length_ <= context_length,
                 "prompt of " + std::to_string(prompt_length_));
  max_output_ = std::min(request_.stop.max_tokens, context_length - prompt_length_);
}

work_span request_terms::since_submission(const time_span& span) const {
  const auto since = [&](time_point at) {
    return std::chrono::duration_cast<std::chrono::microseconds>(at - submitted_);
  };
  return {since(span.begin), since(span.end)};
}

bool request_terms::ends_with(token_id token) const {
  const auto& stop = request_.stop;
  if (std::ranges::binary_search(stop.stop_ids, token)) return true;
  return !stop.ignore_eos && std::ranges::binary_search(stop.eos_ids, token);
}

} // namespace paceline::scheduling
