#include "runtime/model/heads/medusa/medusa_head.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/model/heads/head_ops.hpp"

#include <utility>

namespace paceline::model {

medusa_head::medusa_head(std::uint32_t num_heads, std::unique_ptr<medusa_weights> weights,
                         std::shared_ptr<const transformer> target, std::vector<token_id> target_ids,
                         float logit_scale)
    : num_heads_(num_heads), weights_(std::move(weights)), target_(std::move(target)),
      target_ids_(std::move(target_ids)), logit_scale_(logit_scale), tap_{target_->info().num_layers} {
  info_.architecture = weights_->heads.empty() ? "blockwise" : "medusa";
  info_.vocab_size = lm_head(0).num_rows();
  info_.context_length = target_->info().context_length;
  info_.num_layers = num_heads;
  info_.hidden_size = target_->info().hidden_size;
  info_.weights_bytes = bytes_of_heads();
  info_.bytes_per_token = bytes_of_heads();
  for (const auto& own : weights_->lm_heads) info_.weights_bytes += own->size_bytes();
  for (std::uint32_t i = 0; i < (has_one_lm_head() ? 1 : num_heads); ++i)
    info_.bytes_per_token += lm_head(i).size_bytes();
  info_.logits_by_ops = true;
}

std::uint64_t medusa_head::bytes_of_heads() const noexcept {
  std::uint64_t bytes = weights_->vectors->size_bytes();
  for (const auto& head : weights_->heads)
    for (const auto& layer : head) bytes += layer.linear->size_bytes();
  for (const auto* block : {&weights_->block_in, &weights_->block_out})
    if (*block) bytes += (*block)->size_bytes();
  return bytes;
}

std::unique_ptr<kv_storage> medusa_head::make_kv_storage(std::uint32_t, std::uint32_t,
                                                         std::span<const layer_index>) const {
  PACELINE_CHECK(false, "heads without cells have no pool");
}

void medusa_head::forward(device::ops& ops, const device::row_batch& batch, const head_features& features,
                          kv_storage*, const head_outputs& outputs) const {
  const auto num_rows = static_cast<std::uint32_t>(batch.rows.size());
  const std::size_t width = info_.hidden_size, vocab = info_.vocab_size;
  PACELINE_CHECK(features.of_target != nullptr && features.cells.size() == num_rows, "one feature a row");
  PACELINE_CHECK(outputs.logit_rows.size() == num_rows && outputs.num_levels <= num_heads_ &&
                     outputs.logits.size() == std::uint64_t{num_rows} * outputs.num_levels * vocab,
                 "logits of every row, for every level");
  if (num_rows == 0) return;
  const bool is_block = weights_->heads.empty();
  const std::size_t inner = is_block ? weights_->block_in->num_rows() : width;
  // Vectors of each row, which are adjacent.
  const std::size_t num_vectors = is_block ? num_heads_ : outputs.num_levels;
  const std::size_t stride = num_vectors * width;
  float* const state = ops.scratch(num_rows * (width + inner + stride)).data();
  float* const between = state + num_rows * width;
  float* const vectors = between + num_rows * inner; // [num_rows][stride]
  features.of_target->read(ops, features.cells, features.of_target->place_of(tap_), state, width);
  if (is_block) {
    for (std::uint32_t i = 0; i < num_heads_; ++i)
      ops.gather({vectors + i * width, stride, state, width, nullptr, num_rows, info_.hidden_size});
    product(ops, {state, width}, num_rows, *weights_->block_in, weights_->block_in_bias, {between, inner});
    activate(ops, {between, inner}, static_cast<std::uint32_t>(inner), num_rows, device::activation::relu);
    product(ops, {between, inner}, num_rows, *weights_->block_out, weights_->block_out_bias,
            {vectors, stride}, true);
  }
  float* const logits = ops.place_for(outputs.logits);
  for (std::uint32_t i = 0; i < outputs.num_levels && !is_block; ++i) {
    float* const vector = vectors + i * width;
    ops.gather({vector, stride, state, width, nullptr, num_rows, info_.hidden_size});
    for (const medusa_weights::layer& layer : weights_->heads[i]) {
      product(ops, {vector, stride}, num_rows, *layer.linear, layer.bias, {between, width});
      activate(ops, {between, width}, info_.hidden_size, num_rows, device::activation::silu);
      ops.add({vector, stride, between, width, num_rows, info_.hidden_size});
    }
  }
  // An LM head that all levels share is read once.
  if (has_one_lm_head() && (num_rows == 1 || num_vectors == outputs.num_levels))
    product(ops, {vectors, width}, num_rows * outputs.num_levels, lm_head(0), nullptr, {logits, vocab});
  else
    for (std::uint32_t i = 0; i < outputs.num_levels; ++i)
      product(ops, {vectors + i * width, stride}, num_rows, lm_head(i), nullptr,
              {logits + i * vocab, outputs.num_levels * vocab});
  ops.deliver();
  if (logit_scale_ != 1)
    for (float& logit : outputs.logits) logit *= logit_scale_;
}

} // namespace paceline::model
