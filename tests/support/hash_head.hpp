#pragma once

#include "runtime/model/hash_model.hpp"
#include "runtime/model/heads/draft_head.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace paceline::test {

/// The properties of a hash_head.
enum class hash_head_shape : std::uint8_t {
  attending, ///< as EAGLE: computes the rows of the whole text, and again for each level
  path,      ///< as Hydra: computes the newest row, and again for each level, up to `max_levels`
  parallel,  ///< as Medusa: computes the newest row only, which gives all levels; has no cells
};

/// A draft head for a hash model that reads its whole context (memory = 0). From the hidden state of a
/// position and the next token it computes the next hidden state as the target does. So it is right every
/// time if each row has its own feature, token and position, and wrong otherwise. An attending head also
/// needs the cell before each row of the text to belong to that text; another cell makes this row and those
/// after it wrong. A head that does not read the context gets its position from the feature. A parallel head
/// continues along its own likeliest tokens, so lower levels are right if these tokens are. With a `salt`
/// other than the target's, its logits are those of another model.
class hash_head final : public model::draft_head {
 public:
  static constexpr std::uint32_t max_levels = 5; ///< of shapes path and parallel

  explicit hash_head(const model::hash_model_config& target, std::uint64_t salt = 0,
                     hash_head_shape shape = hash_head_shape::attending);

  const model::model_info& info() const noexcept override { return info_; }
  model::head_traits traits() const noexcept override;
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                     std::span<const layer_index> taps = {}) const override;
  std::span<const layer_index> taps() const noexcept override { return taps_; }
  std::span<const token_id> target_ids() const noexcept override { return {}; }
  std::uint32_t num_embedded() const noexcept override { return info_.vocab_size; }
  void forward(device::ops& ops, const device::row_batch& batch, const model::head_features& features,
               model::kv_storage* kv, const model::head_outputs& outputs) const override;

 private:
  bool sees_its_text(const device::row_batch& batch, std::size_t row, std::span<const float> read,
                     const model::kv_storage& kv) const;

  model::hash_model states_; ///< the target
  model::hash_model logits_;
  hash_head_shape shape_;
  std::array<layer_index, 1> taps_;
  model::model_info info_;
};

} // namespace paceline::test
