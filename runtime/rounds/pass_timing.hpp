#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/pass_time.hpp"
#include "runtime/device/stream.hpp"
#include "runtime/model/language_model.hpp"

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::rounds {

/// Measures what passes over 1 to 64 rows take, the sizes in turn: the least time of each size that was
/// reached. No pass begins after `budget`, but for the first two. Uses the first cells of `kv`, which nobody
/// else may use meanwhile. Waits for `stream`, so not to be called inside one of its programs. Empty if the
/// model cannot run; the first request will say why.
std::vector<pass_time> time_passes(device::stream& stream, const model::language_model& model,
                                   model::kv_storage& kv, const clock& time, std::chrono::nanoseconds budget);

} // namespace paceline::rounds
