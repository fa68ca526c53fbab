#pragma once

#include "runtime/model/language_model.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::model {

/// Parameters of a hash model.
struct hash_model_config {
  std::uint32_t vocab_size = 300;
  std::uint32_t context_length = 4096;
  std::uint32_t memory = 0;     ///< number of last tokens on which the logits depend; 0 = the whole context
  float sharpness = 8.0F;       ///< logits lie in [0, sharpness)
  std::uint32_t pass_work = 0;  ///< hash steps computed in each pass, so that a pass takes time
  std::uint32_t num_layers = 1; ///< `part_of` can run some of them
  /// True: logits also depend on a recurrent state, the hash of the context. Every row takes it from the
  /// state that it continues (`device::row_state`). A wrong state slot gives different logits.
  bool recurrent = false;
  std::uint64_t salt = 0; ///< models with different salts give different logits
};

/// A model without weights that makes bookkeeping errors visible.
///
/// The KV cell of position i holds the token and a hash of tokens 0..i. A row reads every cell of its context
/// through the block table, checks that each hash continues the one before it, and derives its logits from
/// the cells. A stale block, a wrong slot, an off-by-one position or a cell of another request breaks the
/// chain of hashes and gives different logits.
///
/// The hidden state of a row has 5 values, the same after every layer: the hash of the row's context in four
/// 16-bit pieces, then the position. So a drafter that reads features can predict every token.
///
/// A row may have an input vector instead of a token (`row_batch::inputs`). In an unbroken run of these rows,
/// row n (from 0) is computed with the likeliest token at its position if the first value of its vector is n,
/// and with another token if not. So a drafter with look-ahead rows can predict every token, too.
class hash_model final : public language_model {
 public:
  explicit hash_model(const hash_model_config& config);

  const model_info& info() const noexcept override { return info_; }
  std::unique_ptr<kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                              std::span<const layer_index> taps = {}) const override;
  /// For a share of layers.size() / num_layers of all contexts, the part gives the same logits as the whole
  /// model. Null for a recurrent model.
  std::unique_ptr<const language_model> part_of(std::span<const std::uint32_t> layers) const override;
  void forward(device::ops& ops, const device::row_batch& batch, kv_storage& kv,
               const forward_outputs& outputs) const override;

  /// Logits after a context, computed from the tokens only: the reference of tests.
  std::vector<float> logits_after(std::span<const token_id> context) const;
  /// Logits for a hidden state that was read from a tap.
  std::vector<float> logits_of_state(std::span<const float> hidden) const;
  /// Hidden state of the row of `token` at `position`, computed from the hidden state of the previous row:
  /// what a feature-level drafter learns to predict. Only for memory = 0, where the state is the context's
  /// hash.
  std::vector<float> next_state(std::span<const float> hidden, token_id token, token_position position) const;
  /// The position of the row that has this hidden state.
  static token_position position_of(std::span<const float> hidden) noexcept;

 private:
  void write_logits(std::uint64_t state, std::span<float> out) const;
  token_id token_for(const device::row_batch& batch, const device::batch_entry& row, std::uint64_t state,
                     std::uint32_t num_given) const;

  hash_model_config config_;
  std::uint32_t num_running_; ///< layers that run; a part may have fewer than config_.num_layers
  model_info info_;
};

} // namespace paceline::model
