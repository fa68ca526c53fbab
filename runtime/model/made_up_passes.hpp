#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/model/language_model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::model {

/// Passes over a sequence of made-up tokens whose cells are in `blocks`, to be timed. `model` and `kv` must
/// outlive the object.
class made_up_passes {
 public:
  made_up_passes(const language_model& model, kv_storage& kv, std::vector<block_id> blocks);

  std::uint32_t num_positions() const noexcept;
  /// Inside a program: runs one pass over the positions [begin, end), like a pass of a round. Up to
  /// device::max_draft_nodes rows are a chain that is verified: the device chooses a token in every row, or
  /// if it cannot, the host gets the logits of every row. More rows are a prompt, where only the last row
  /// decides. Earlier positions must have been computed.
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
