#include "runtime/scheduling/overlap_choice.hpp"

#include <algorithm>
#include <utility>

namespace paceline::scheduling {

overlap_choice::overlap_choice(std::vector<ahead_mode> modes)
    : modes_(std::move(modes)), periods_(modes_.size()), trying_(modes_.size() > 1) {}

void overlap_choice::observe(ahead_mode planned, std::uint32_t num_requests,
                             std::chrono::nanoseconds period) {
  if (modes_.size() == 1 || planned != mode() || !comparable(num_requests)) return;
  ++num_rounds_;
  if (!trying_) {
    if (num_rounds_ == chosen_rounds) begin_trials();
    return;
  }
  if (num_rounds_ <= settling_rounds) return;
  sum_ += static_cast<double>(period.count());
  const auto counted = num_rounds_ - settling_rounds;
  periods_[now_] = sum_ / counted;
  const auto best =
      now_ == 0 ? periods_[0]
                : *std::min_element(periods_.begin(), periods_.begin() + static_cast<std::ptrdiff_t>(now_));
  const bool hopeless = counted >= hopeless_rounds && periods_[now_] > far_slower * best;
  if (hopeless || counted == trial_rounds) end_trial();
}

bool overlap_choice::comparable(std::uint32_t num_requests) {
  if (num_requests == num_requests_) {
    num_others_ = 0;
    return true;
  }
  if (num_requests_ != 0 && ++num_others_ < patience) return false;
  num_requests_ = num_requests;
  num_others_ = 0;
  begin_trials();
  return true;
}

void overlap_choice::begin_trials() {
  trying_ = true;
  now_ = 0, num_rounds_ = 0, sum_ = 0;
}

void overlap_choice::end_trial() {
  num_rounds_ = 0, sum_ = 0;
  if (++now_ < modes_.size()) return;
  trying_ = false;
  now_ = 0;
  for (std::size_t m = 1; m < modes_.size(); ++m)
    if (periods_[m] * least_gain < periods_[now_]) now_ = m;
}

} // namespace paceline::scheduling
