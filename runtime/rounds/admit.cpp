#include "runtime/rounds/admit.hpp"

#include "runtime/rounds/request_progress.hpp"

#include <utility>

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

admitted_request admit(request_id id, generation_request request, std::uint32_t context_length,
                       std::unique_ptr<text_output> text, time_point submitted, guarantee most) {
  auto terms = std::make_shared<const request_terms>(id, std::move(request), context_length, submitted, most);
  auto log = std::make_shared<committed_log>(terms);
  auto progress = std::make_shared<request_progress>(terms, log, std::move(text));
  return {std::move(terms), std::move(log), std::move(progress)};
}

} // namespace paceline::rounds
