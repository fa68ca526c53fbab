#include "runtime/rounds/hypothesis_sessions.hpp"

#include <algorithm>
#include <utility>

namespace paceline::rounds {

std::vector<speculation::drafter_session*>
hypothesis_sessions::follow(std::span<const std::vector<token_id>> outputs, speculation::drafter& drafter,
                            request_id request) {
  auto before = std::exchange(sessions_, {});
  std::vector<speculation::drafter_session*> out;
  for (const auto& output : outputs) {
    const auto leads_to_it = [&](const followed& one) {
      return one.session && one.output.size() <= output.size() &&
             std::equal(one.output.begin(), one.output.end(), output.begin());
    };
    followed* nearest = nullptr;
    for (auto& one : before)
      if (leads_to_it(one) && (!nearest || one.output.size() > nearest->output.size())) nearest = &one;
    sessions_.push_back({output, nearest ? std::move(nearest->session) : drafter.open(request)});
    out.push_back(sessions_.back().session.get());
  }
  return out;
}

} // namespace paceline::rounds
