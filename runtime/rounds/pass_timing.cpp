#include "runtime/rounds/pass_timing.hpp"

#include "runtime/device/fence.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/device/stopwatch.hpp"
#include "runtime/model/made_up_passes.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

namespace paceline::rounds {

namespace {

/// The sizes of a turn, in the order in which they are measured. If time is short, both ends of the curve are
/// known.
constexpr std::uint32_t sizes[] = {1, 8, 2, 4, 16, 5, 3, 6, 12, 7, 9, 10, 14};
/// These are rarely chosen and take long: the budget is spent on second measurements of the others first.
/// They run twice, the first time to become graphs on a GPU.
constexpr std::uint32_t large_sizes[] = {32, 24, 64};
constexpr std::uint32_t num_turns = 5;
/// The turns, counted from 0, after which the large sizes run, too.
constexpr std::uint32_t first_large_turn = 1, last_large_turn = 2;

/// The time of one pass over the first `rows` positions; nullopt if the pass failed.
std::optional<std::chrono::nanoseconds> time_pass(device::stream& stream, model::made_up_passes& passes,
                                                  const clock& time, std::uint32_t rows) {
  std::chrono::nanoseconds taken{};
  const auto done = stream.submit("time_pass", {}, [&](device::ops& ops) {
    const device::stopwatch since_begin(ops, time);
    passes.run(ops, 0, rows);
    taken = since_begin.elapsed();
  });
  done.wait();
  return done.failure() ? std::nullopt : std::optional(taken);
}

} // namespace

std::vector<pass_time> time_passes(device::stream& stream, const model::language_model& model,
                                   model::kv_storage& kv, const clock& time,
                                   std::chrono::nanoseconds budget) {
  std::vector<block_id> blocks;
  for (std::uint32_t b = 0; b < kv.num_blocks() && b * kv.block_size() < std::ranges::max(large_sizes); ++b)
    blocks.emplace_back(b);
  model::made_up_passes passes(model, kv, std::move(blocks));
  const auto room = passes.num_positions();
  const auto begin = time.now();
  if (room == 0 || !time_pass(stream, passes, time, std::min(room, std::ranges::max(sizes))))
    return {}; // warms up
  std::map<std::uint32_t, double> least;
  const auto measure = [&](std::uint32_t rows) { // returns false when measuring must stop
    if (time.now() - begin >= budget && !least.empty()) return false;
    const auto taken = time_pass(stream, passes, time, rows);
    if (!taken) return false;
    const auto [at, first] = least.emplace(rows, static_cast<double>(taken->count()));
    if (!first) at->second = std::min(at->second, static_cast<double>(taken->count()));
    return true;
  };
  bool goes_on = true;
  const auto measure_each = [&](std::span<const std::uint32_t> those) {
    for (const auto rows : those)
      if (goes_on && rows <= room) goes_on = measure(rows);
  };
  for (std::uint32_t turn = 0; goes_on && turn < num_turns; ++turn) {
    measure_each(sizes);
    if (turn >= first_large_turn && turn <= last_large_turn) measure_each(large_sizes);
  }
  // Whatever disturbs a pass makes it longer, and more rows take no less time: a size takes at most what a
  // larger one took.
  std::vector<pass_time> times;
  for (const auto& [rows, nanoseconds] : least) times.push_back({rows, nanoseconds});
  for (std::size_t i = times.size(); i-- > 1;)
    times[i - 1].nanoseconds = std::min(times[i - 1].nanoseconds, times[i].nanoseconds);
  return times;
}

} // namespace paceline::rounds
