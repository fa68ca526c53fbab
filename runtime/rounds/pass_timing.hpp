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

/// Measures the duration of passes over 1 to 64 rows. The sizes are run in turn, several times, until
/// `budget` is used up. For each size that was run, the result has the shortest time of a pass over at least
/// that many rows. A first pass, to warm up, and one measured pass run even if the budget is smaller. Uses
/// the first cells of `kv`, which nobody else may use meanwhile. Waits for `stream`, so it must not be called
/// inside one of the stream's programs. Empty if the model cannot run; the first request will report why.
std::vector<pass_time> time_passes(device::stream& stream, const model::language_model& model,
                                   model::kv_storage& kv, const clock& time, std::chrono::nanoseconds budget);

} // namespace paceline::rounds
