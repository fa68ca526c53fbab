#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/model/language_model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::model {

/// Runs passes over a sequence of made-up tokens, so that they can be timed. `blocks` are the sequence's
/// blocks in `kv`. `model` and `kv` must outlive the object.
class made_up_passes {
 public:
  made_up_passes(const language_model& model, kv_storage& kv, std::vector<block_id> blocks);

  std::uint32_t num_positions() const noexcept;
  /// Runs one pass over the positions [begin, end), like a pass of a round. Must be called inside a program,
  /// after earlier positions have been computed. Up to device::max_draft_nodes rows are run like the
  /// verification of a chain: the device chooses a token for every row, or the host gets the logits of every
  /// row if the device cannot choose. More rows are run like a prompt: only the last row has a choice or
  /// logits.
  void run(device::ops& ops, std::uint32_t begin, std::uint32_t end);

  device::batch_entry row_at(std::uint32_t position) const;
  std::span<const block_id> blocks() const noexcept { return blocks_; }

 private:
  std::vector<device::row_state> states_of(std::uint32_t num_rows) const;
  void run_chosen(device::ops& ops, const device::row_batch& batch, std::span<const std::uint32_t> wanted);

  const language_model* model_;
  kv_storage* kv_;
  std::vector<block_id> blocks_;
  /// Room for the logits of the largest draft, allocated in the first pass that needs logits.
  std::vector<float> logits_;
};

} // namespace paceline::model
