#include "runtime/device/op_elementwise.hpp"
#include "runtime/model/heads/dflash/dflash_head.hpp"
#include "runtime/model/heads/head_ops.hpp"
#include "runtime/model/kv_cells.hpp"
#include "runtime/model/pass_rows.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace paceline::model {

/// A pass over rows of a draft. It computes what the Markov head adds to the logits of their levels.
class dflash_head::level_pass {
 public:
  level_pass(const dflash_head& head, device::ops& ops, const device::row_batch& batch,
             const head_features& features, kv_cells& kv, const head_outputs& outputs)
      : head_(head), ops_(ops), batch_(batch), features_(features), kv_(kv), outputs_(outputs),
        markov_(head.weights_->markov, head.config_.layer.hidden_size) {}

  void run() {
    const auto count = static_cast<std::uint32_t>(batch_.rows.size());
    const std::size_t kept = head_.kept_size();
    const std::uint32_t rank = head_.config_.markov_rank;
    float* rows = nullptr;
    const std::array<row_array, 3> arrays{{{&rows, markov_.width()}, {&kept_, kept}, {&terms_, rank}}};
    divide_scratch(ops_, count, arrays);
    markov_.place(rows, count);
    if (kept != 0) read_states(count);
    std::vector<token_id> tokens;
    for (const device::batch_entry& row : batch_.rows) tokens.push_back(row.token);
    markov_.run(ops_, tokens);
    if (const std::uint32_t state = head_.state_size(); state != 0) {
      ops_.gather({kept_, kept, markov_.state().at, markov_.width(), nullptr, count, state});
      kv_.features()->write(ops_, cells_of(batch_, kv_.block_size()), 0, kept_, kept);
    }
    const auto wanted = static_cast<std::uint32_t>(outputs_.logit_rows.size());
    ops_.gather({terms_, rank, markov_.term().at, markov_.width(), outputs_.logit_rows.data(), wanted, rank});
    product(ops_, {terms_, rank}, wanted, *head_.weights_->markov.logits, nullptr,
            {ops_.place_for(outputs_.logits), head_.info_.vocab_size});
    if (!outputs_.confidences.empty())
      make_confidences(ops_, head_.weights_->markov, markov_.hidden(), count,
                       ops_.place_for(outputs_.confidences));
    ops_.deliver();
  }

 private:
  /// Reads norm(z) of each row's slot and the state that the row above left. The slot of level k is k cells
  /// after the first slot behind the newest row of the text. The state for level 1 was left by a row of the
  /// block.
  void read_states(std::uint32_t count) {
    const std::uint32_t first = head_.first_level_row(), state = head_.state_size();
    const std::size_t kept = head_.kept_size();
    const auto cell_at = [&](const device::batch_entry& row, std::uint32_t slot) {
      return static_cast<std::uint32_t>(
          device::cell_of(batch_.sequences[row.sequence], kv_slot{slot}, kv_.block_size()));
    };
    std::vector<std::uint32_t> slots, above;
    for (std::uint32_t r = 0; r < count; ++r) {
      const device::batch_entry& row = batch_.rows[r];
      slots.push_back(cell_at(row, row.position.value + first));
      above.push_back(features_.levels[r] == 1 ? cell_at(row, row.position.value + first - 1)
                                               : features_.cells[r]);
    }
    if (state != 0) {
      kv_.features()->read(ops_, above, 0, kept_, kept);
      ops_.gather({markov_.state().at, markov_.width(), kept_, kept, nullptr, count, state});
    }
    kv_.features()->read(ops_, slots, 0, kept_, kept);
    ops_.gather({markov_.hidden().at, markov_.width(), kept_ + state, kept, nullptr, count,
                 head_.config_.layer.hidden_size});
  }

  const dflash_head& head_;
  device::ops& ops_;
  const device::row_batch& batch_;
  const head_features& features_;
  kv_cells& kv_;
  const head_outputs& outputs_;
  markov_rows markov_;
  float* kept_ = nullptr;
  float* terms_ = nullptr;
};

void dflash_head::complete_levels(device::ops& ops, const device::row_batch& batch,
                                  const head_features& features, kv_cells& kv,
                                  const head_outputs& outputs) const {
  level_pass(*this, ops, batch, features, kv, outputs).run();
}

} // namespace paceline::model
