#include "runtime/model/heads/eagle/eagle_head.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_rms_norm.hpp"
#include "runtime/device/op_rope.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/model/heads/head_cells.hpp"
#include "runtime/model/heads/head_ops.hpp"
#include "runtime/model/pass_rows.hpp"
#include "runtime/model/rope_frequencies.hpp"

#include <array>
#include <utility>

namespace paceline::model {

/// One forward pass. The intermediate values of all rows are in one piece of the stream's scratch memory.
class eagle_head::pass {
 public:
  pass(const eagle_head& head, device::ops& ops, const device::row_batch& batch,
       const head_features& features, kv_cells& kv, const head_outputs& outputs)
      : head_(head), config_(head.config_), weights_(*head.weights_), ops_(ops), batch_(batch),
        features_(features), kv_(kv), outputs_(outputs),
        num_rows_(static_cast<std::uint32_t>(batch.rows.size())), width_(config_.layer.hidden_size) {
    if (config_.masks != mask_rows::none)
      for (std::uint32_t r = 0; r < num_rows_; ++r)
        if (features.levels[r] > 0) masks_.push_back(r);
    take_memory();
  }

  void run() {
    decoder_layers layers(ops_, batch_, config_.layer, memory_);
    ops_.rope_table({batch_.rows, head_.frequencies_, config_.layer.rope.scaling.magnitude, rope_table_});
    const attention_input first = config_.version == eagle_version::eagle3 ? read_eagle3() : read_eagle();
    for (std::uint32_t l = 0; l < weights_.layers.size(); ++l) {
      const layer_weights& layer = weights_.layers[l];
      const attention_input input =
          l == 0 ? first : attention_input{memory_.hidden, width_, layer.attention_norm};
      const std::uint32_t window = config_.layer.is_local(l) ? config_.layer.sliding_window : 0;
      layers.attend(layer, input, {kv_.layer(l), rope_table_, window});
      layers.feed_forward(layer);
    }
    if (head_.feeds_back()) feed_back(layers);
    make_logits();
    ops_.deliver();
  }

 private:
  void take_memory() {
    const std::size_t pair = 2 * std::size_t{width_};
    const feed_forward_sizes feed_forward = feed_forward_row_sizes(config_.layer);
    const std::array<row_array, 12> arrays{{
        {&memory_.hidden, width_},
        {&memory_.normed, pair},
        {&memory_.qkv, config_.layer.q_size() + 2 * std::size_t{config_.layer.kv_size()}},
        {&memory_.attended, config_.layer.q_size()},
        {&memory_.gates, is_gated() ? config_.layer.q_size() : 0},
        {&memory_.gate_up, feed_forward.gate_up},
        {&memory_.experts, feed_forward.experts},
        {&memory_.shared, feed_forward.shared},
        {&memory_.shared_out, feed_forward.shared_out},
        {&rope_table_, config_.layer.head_dim},
        {&pair_, pair},
        {&tapped_, features_.of_target != nullptr ? num_tapped() : 0},
    }};
    divide_scratch(ops_, num_rows_, arrays);
  }

  bool is_gated() const { return weights_.layers.front().attention_gate != nullptr; }
  std::size_t num_tapped() const { return config_.taps.size() * config_.target_hidden_size; }

  void embed(float* out, std::size_t stride) {
    if (masks_.empty() || config_.masks != mask_rows::feature)
      return embed_rows(ops_, head_.embedding(), batch_, out, stride, 1);
    std::vector<device::batch_entry> rows(batch_.rows.begin(), batch_.rows.end());
    for (const std::uint32_t r : masks_) rows[r].token = config_.mask_token;
    embed_rows(ops_, head_.embedding(), {rows, {}, {}}, out, stride, 1);
  }

  /// Writes the first `width` values of the mask's vector into the mask rows of `x`.
  void mask(float* x, std::size_t stride, std::uint32_t width) {
    if (masks_.empty()) return;
    ops_.scatter(
        {x, stride, masks_.data(), weights_.mask, 0, static_cast<std::uint32_t>(masks_.size()), width});
  }

  void norm_in_place(float* x, std::size_t stride, const float* weight, std::uint32_t width) {
    if (weight == nullptr) return;
    ops_.rms_norm({x, stride, x, stride, weight, num_rows_, 1, width, config_.layer.norm_epsilon});
  }

  void project(float* x, std::size_t width) {
    product(ops_, {x, width}, num_rows_, *weights_.fc, weights_.fc_bias, {memory_.hidden, width_});
  }

  /// EAGLE: hidden = fc([embedding ; feature]), which is also what attention reads.
  attention_input read_eagle() {
    const std::size_t stride = 2 * std::size_t{width_};
    float* const feature = config_.hidden_first ? pair_ : pair_ + width_;
    float* const embedding = config_.hidden_first ? pair_ + width_ : pair_;
    embed(embedding, stride);
    norm_in_place(embedding, stride, weights_.embedding_norm, width_);
    if (features_.of_target != nullptr)
      features_.of_target->read(ops_, features_.cells, features_.of_target->place_of(config_.taps[0]),
                                feature, stride);
    else
      kv_.features()->read(ops_, features_.cells, 0, feature, stride);
    norm_in_place(feature, stride, weights_.feature_norm, width_);
    project(pair_, stride);
    return {memory_.hidden, width_, weights_.layers[0].attention_norm};
  }

  /// EAGLE-3: hidden = g or norm(g); attention reads [norm(embedding) ; norm(g)].
  attention_input read_eagle3() {
    const std::size_t stride = 2 * std::size_t{width_};
    if (features_.of_target != nullptr)
      fuse_taps();
    else
      kv_.features()->read(ops_, features_.cells, 0, memory_.hidden, width_);
    embed(pair_, stride);
    norm_in_place(pair_, stride, weights_.embedding_norm, width_);
    ops_.rms_norm({memory_.hidden, width_, pair_ + width_, stride, weights_.feature_norm, num_rows_, 1,
                   width_, config_.layer.norm_epsilon});
    if (config_.norm_before_residual)
      ops_.gather({memory_.hidden, width_, pair_ + width_, stride, nullptr, num_rows_, width_});
    if (config_.masks == mask_rows::attention_input) {
      mask(pair_, stride, 2 * width_);
      mask(memory_.hidden, width_, width_);
    }
    return {pair_, 2 * width_, nullptr};
  }

  void fuse_taps() {
    const std::size_t stride = num_tapped();
    const std::uint32_t width = config_.target_hidden_size;
    for (std::size_t t = 0; t < config_.taps.size(); ++t)
      features_.of_target->read(ops_, features_.cells, features_.of_target->place_of(config_.taps[t]),
                                tapped_ + t * width, stride);
    if (config_.masks == mask_rows::feature) mask(tapped_, stride, static_cast<std::uint32_t>(stride));
    for (std::size_t t = 0; t < weights_.tap_norms.size(); ++t)
      norm_in_place(tapped_ + t * width, stride, weights_.tap_norms[t], width);
    norm_in_place(tapped_, stride, weights_.input_norm, static_cast<std::uint32_t>(stride));
    project(tapped_, stride);
  }

  /// Writes the vectors that the next rows of a draft read.
  void feed_back(decoder_layers& layers) {
    const float* out = memory_.hidden;
    if (config_.norm_output) {
      layers.norm(memory_.hidden, memory_.normed, weights_.output_norm, num_rows_);
      out = memory_.normed;
    }
    kv_.features()->write(ops_, cells_of(batch_, kv_.block_size()), 0, out, width_);
  }

  void make_logits() {
    const auto wanted = static_cast<std::uint32_t>(outputs_.logit_rows.size());
    if (wanted == 0) return;
    float* const rows = memory_.normed;
    ops_.gather({rows, width_, memory_.hidden, width_, outputs_.logit_rows.data(), wanted, width_});
    for (int norms = config_.norms_twice ? 2 : 1; norms > 0 && weights_.output_norm != nullptr; --norms)
      ops_.rms_norm(
          {rows, width_, rows, width_, weights_.output_norm, wanted, 1, width_, config_.layer.norm_epsilon});
    product(ops_, {rows, width_}, wanted, head_.lm_head(), nullptr,
            {ops_.place_for(outputs_.logits), head_.info_.vocab_size});
  }

  const eagle_head& head_;
  const eagle_config& config_;
  const eagle_weights& weights_;
  device::ops& ops_;
  const device::row_batch& batch_;
  const head_features& features_;
  kv_cells& kv_;
  const head_outputs& outputs_;
  const std::uint32_t num_rows_;
  const std::uint32_t width_; ///< hidden size of the head
  layer_memory memory_;
  float* rope_table_ = nullptr;
  float* pair_ = nullptr;            ///< embedding and feature, adjacent
  float* tapped_ = nullptr;          ///< the target's vectors of all taps, adjacent
  std::vector<std::uint32_t> masks_; ///< the mask rows
};

eagle_head::eagle_head(eagle_config config, std::unique_ptr<eagle_weights> weights,
                       std::shared_ptr<const transformer> target, std::vector<token_id> target_ids,
                       paceline::kv_type kv_type, device::buffer_memory& memory)
    : config_(std::move(config)), weights_(std::move(weights)), target_(std::move(target)),
      target_ids_(std::move(target_ids)),
      frequencies_(rope_frequencies(config_.layer.rope, config_.layer.num_rotated())), kv_type_(kv_type),
      memory_(memory) {
  const model_config& layer = config_.layer;
  info_.architecture = config_.name;
  info_.vocab_size = lm_head().num_rows();
  info_.context_length = layer.context_length;
  info_.num_layers = layer.num_layers;
  info_.hidden_size = layer.hidden_size;
  const std::uint64_t around =
      weights_->vectors->size_bytes() + (weights_->fc ? weights_->fc->size_bytes() : 0);
  info_.weights_bytes = around;
  info_.bytes_per_token = around + lm_head().size_bytes() + embedding().size_bytes() / num_embedded();
  for (const layer_weights& one : weights_->layers) {
    info_.weights_bytes += one.matrix_bytes();
    info_.bytes_per_token += one.bytes_per_row(layer.experts.routing.num_used);
  }
  for (const auto* own : {&weights_->embedding, &weights_->lm_head})
    if (*own) info_.weights_bytes += (*own)->size_bytes();
  info_.kv_bytes_per_token = shape_of(layer, kv_type).bytes_per_token();
  if (feeds_back()) info_.kv_bytes_per_token += layer.hidden_size * sizeof(float);
  info_.logits_by_ops = true;
}

std::unique_ptr<kv_storage> eagle_head::make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                        std::span<const layer_index> taps) const {
  PACELINE_CHECK(taps.empty(), "nobody taps a draft head");
  return std::make_unique<kv_cells>(shape_of(config_.layer, kv_type_), num_blocks, block_size, memory_,
                                    kept_vector(feeds_back() ? config_.layer.hidden_size : 0));
}

head_traits eagle_head::traits() const noexcept {
  if (config_.masks == mask_rows::none) return {};
  return {
      .max_levels = 1 + config_.num_mask_rows, .is_parallel = true, .num_block_rows = config_.num_mask_rows};
}

void eagle_head::forward(device::ops& ops, const device::row_batch& batch, const head_features& features,
                         kv_storage* kv, const head_outputs& outputs) const {
  auto* const cells = dynamic_cast<kv_cells*>(kv);
  PACELINE_CHECK(cells != nullptr && (cells->features() != nullptr) == feeds_back() &&
                     cells->num_layers() == config_.layer.num_layers,
                 "the KV pool is of another model");
  PACELINE_CHECK(features.cells.size() == batch.rows.size(), "one feature a row");
  PACELINE_CHECK(feeds_back() ||
                     (features.of_target != nullptr && features.levels.size() == batch.rows.size()),
                 "mask rows stand in the pass over the text");
  PACELINE_CHECK(outputs.logits.size() == outputs.logit_rows.size() * std::uint64_t{info_.vocab_size},
                 "room for " + std::to_string(outputs.logits.size()) + " logits");
  check_batch(batch, *kv);
  if (batch.rows.empty()) return;
  pass(*this, ops, batch, features, *cells, outputs).run();
}

} // namespace paceline::model
