#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/device/stream.hpp"
#include "runtime/model/language_model.hpp"
#include "runtime/speculation/control/pass_cost.hpp"

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::rounds {

/// Passes over a sequence of made-up tokens in `blocks`, to be timed. What it refers to outlives it.
class made_up_passes {
 public:
  made_up_passes(const model::language_model& model, model::kv_storage& kv, std::vector<block_id> blocks);

  std::uint32_t num_positions() const noexcept;
  /// Inside a program: one pass over the positions [begin, end), as rounds have them: a chain that is
  /// verified, with each row's token chosen by the device where it can, and its logits brought to the host
  /// where it cannot. Of more rows than a draft may have, which are a prompt, the last one's alone. Earlier
  /// positions were computed before.
  void run(device::ops& ops, std::uint32_t begin, std::uint32_t end);

  device::batch_entry row_at(std::uint32_t position) const;
  std::span<const block_id> blocks() const noexcept { return blocks_; }

 private:
  void run_chosen(device::ops& ops, const device::row_batch& batch, std::span<const std::uint32_t> wanted);

  const model::language_model* model_;
  model::kv_storage* kv_;
  std::vector<block_id> blocks_;
  std::vector<float> logits_; ///< of the largest pass so far: a round does not pay for its memory either
};

/// Measures what passes over 1 to 64 rows take, the sizes in turn, for about `budget`: the least time of each
/// size that was reached. Uses the first cells of `kv`, which nobody else may use meanwhile. Waits for
/// `stream`, so not to be called inside one of its programs. Empty if the model cannot run; the first request
/// will say why.
std::vector<speculation::pass_time> time_passes(device::stream& stream, const model::language_model& model,
                                                model::kv_storage& kv, const clock& time,
                                                std::chrono::nanoseconds budget);

} // namespace paceline::rounds
