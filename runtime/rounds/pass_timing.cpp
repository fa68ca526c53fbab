#include "runtime/rounds/pass_timing.hpp"

#include "runtime/device/fence.hpp"
#include "runtime/device/op_choose.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/device/stopwatch.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace paceline::rounds {

namespace {

/// In the order of their use: where time is short the curve is still known at both ends.
constexpr std::uint32_t sizes[] = {1, 8, 2, 4, 16, 5, 3, 6, 12, 7, 32, 9, 10, 14, 24, 64};
constexpr std::uint32_t largest_repeated = 16; ///< the larger ones are seldom chosen, and take long
constexpr std::uint32_t most_repeats = 5;

/// The time of one pass over the first `rows` positions; none if it failed.
std::optional<std::chrono::nanoseconds> time_pass(device::stream& stream, made_up_passes& passes,
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

made_up_passes::made_up_passes(const model::language_model& model, model::kv_storage& kv,
                               std::vector<block_id> blocks)
    : model_(&model), kv_(&kv), blocks_(std::move(blocks)) {}

std::uint32_t made_up_passes::num_positions() const noexcept {
  return static_cast<std::uint32_t>(blocks_.size()) * kv_->block_size();
}

device::batch_entry made_up_passes::row_at(std::uint32_t position) const {
  const auto vocabulary = std::min(model_->info().vocab_size, 30000U);
  const auto id = static_cast<std::int32_t>((position * 7919U + 13U) % vocabulary);
  return {token_id{id}, token_position{position}, kv_slot{position}, 0, 0, 0};
}

void made_up_passes::run(device::ops& ops, std::uint32_t begin, std::uint32_t end) {
  std::vector<device::batch_entry> rows;
  for (std::uint32_t position = begin; position < end; ++position) rows.push_back(row_at(position));
  const auto num_rows = static_cast<std::uint32_t>(rows.size());
  std::vector<std::uint32_t> wanted{num_rows - 1};
  if (num_rows <= device::max_draft_nodes) {
    wanted.resize(num_rows);
    std::iota(wanted.begin(), wanted.end(), 0U);
  }
  const device::sequence_kv sequence{blocks_};
  const device::row_batch batch{rows, {&sequence, 1}, {}};
  if (model_->info().logits_by_ops && ops.can_choose()) return run_chosen(ops, batch, wanted);
  const auto num_logits = wanted.size() * std::size_t{model_->info().vocab_size};
  if (logits_.size() < num_logits) logits_.resize(num_logits);
  model_->forward(ops, batch, *kv_, {wanted, std::span(logits_).first(num_logits), {}});
}

void made_up_passes::run_chosen(device::ops& ops, const device::row_batch& batch,
                                std::span<const std::uint32_t> wanted) {
  std::vector<token_id> draft;
  std::vector<std::int32_t> parents;
  for (std::size_t node = 0; node + 1 < wanted.size(); ++node) {
    draft.push_back(batch.rows[node + 1].token);
    parents.push_back(static_cast<std::int32_t>(node) - 1);
  }
  device::token_choice request;
  request.draft_tokens = draft, request.parents = parents;
  request.position = token_position{batch.rows[wanted.front()].position.value + 1};
  request.temperature = 0;
  device::chosen_run chosen;
  const model::device_choices choices{wanted, {&request, 1}, {&chosen, 1}, {}};
  model_->forward(ops, batch, *kv_, {{}, {}, {}, &choices});
}

std::vector<speculation::pass_time> time_passes(device::stream& stream, const model::language_model& model,
                                                model::kv_storage& kv, const clock& time,
                                                std::chrono::nanoseconds budget) {
  std::vector<block_id> blocks;
  for (std::uint32_t b = 0; b < kv.num_blocks() && b * kv.block_size() < std::ranges::max(sizes); ++b)
    blocks.emplace_back(b);
  made_up_passes passes(model, kv, std::move(blocks));
  const auto room = passes.num_positions();
  // The largest first: memory is there then, and the caches are warm.
  if (room == 0 || !time_pass(stream, passes, time, std::min(room, largest_repeated))) return {};
  const auto begin = time.now();
  std::map<std::uint32_t, double> least;
  for (std::uint32_t repeat = 0; repeat < most_repeats; ++repeat)
    for (const auto rows : sizes) {
      if (rows > room || (repeat > 0 && rows > largest_repeated)) continue;
      if (time.now() - begin >= budget && !least.empty()) break;
      const auto taken = time_pass(stream, passes, time, rows);
      if (!taken) return {};
      const auto now = static_cast<double>(taken->count());
      const auto [at, first] = least.emplace(rows, now);
      if (!first) at->second = std::min(at->second, now);
    }
  std::vector<speculation::pass_time> times;
  for (const auto& [rows, nanoseconds] : least) times.push_back({rows, nanoseconds});
  return times;
}

} // namespace paceline::rounds
