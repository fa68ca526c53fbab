#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/model/language_model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::model {

/// Passes over a sequence of made-up tokens in `blocks`, to be timed. What it refers to outlives it.
class made_up_passes {
 public:
  made_up_passes(const language_model& model, kv_storage& kv, std::vector<block_id> blocks);

  std::uint32_t num_positions() const noexcept;
  /// Inside a program: one pass over the positions [begin, end), as rounds have them: a chain that is
  /// verified, with each row's token chosen by the device where it can, and its logits brought to the host
  /// where it cannot. Of more rows than a draft may have, which are a prompt, the last one's alone. Earlier
  /// positions were computed before.
  void run(device::ops& ops, std::uint32_t begin, std::uint32_t end);

  device::batch_entry row_at(std::uint32_t position) const;
  std::span<const block_id> blocks() const noexcept { return blocks_; }

 private:
  std::vector<device::row_state> states_of(std::uint32_t num_rows) const;
  void run_chosen(device::ops& ops, const device::row_batch& batch, std::span<const std::uint32_t> wanted);

  const language_model* model_;
  kv_storage* kv_;
  std::vector<block_id> blocks_;
  std::vector<float> logits_; ///< room for the largest draft's, made before the first pass
};

} // namespace paceline::model
