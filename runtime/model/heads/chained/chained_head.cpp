#include "runtime/model/heads/chained/chained_head.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_rms_norm.hpp"
#include "runtime/device/op_rope.hpp"
#include "runtime/model/heads/head_cells.hpp"
#include "runtime/model/heads/head_ops.hpp"
#include "runtime/model/pass_rows.hpp"
#include "runtime/model/rope_frequencies.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace paceline::model {

namespace {

kv_shape shape_of(const chained_config& config, const chained_weights& weights, kv_type type) {
  return {weights.prefix ? 1U : 0U, config.layer.num_kv_heads, config.layer.head_dim, type};
}

} // namespace

/// One pass over rows of one level. The level is computed for the rows with logits; a prefix layer runs over
/// all rows.
class chained_head::pass {
 public:
  pass(const chained_head& head, device::ops& ops, const device::row_batch& batch,
       const head_features& features, kv_cells& kv, const head_outputs& outputs)
      : head_(head), weights_(*head.weights_), ops_(ops), batch_(batch), features_(features), kv_(kv),
        outputs_(outputs), num_rows_(static_cast<std::uint32_t>(outputs.logit_rows.size())),
        level_(features.levels[0]), hidden_(head.config_.layer.hidden_size) {
    for (const std::uint32_t row : outputs.logit_rows) {
      rows_.push_back(batch.rows[row]);
      feature_cells_.push_back(features.cells[row]);
    }
  }

  void run() {
    if (!reads_prefix() && num_rows_ == 0) return;
    take_memory();
    if (reads_prefix()) run_prefix();
    if (num_rows_ == 0) return ops_.deliver();
    const chained_level& level = weights_.levels[level_];
    const value_rows out =
        head_.config_.kind == chained_kind::hydra ? run_hydra(level) : run_speculator(level);
    kv_.features()->write(ops_, cells_of(wanted(), kv_.block_size()), 0, kept_.at, kept_.stride);
    product(ops_, out, num_rows_, *level.lm_head, level.lm_head_bias,
            {ops_.place_for(outputs_.logits), head_.info_.vocab_size});
    ops_.deliver();
  }

 private:
  void take_memory() {
    const model_config& layer = head_.config_.layer;
    const bool prefix = reads_prefix();
    kept_.stride = head_.kept_size();
    state_.stride = more_.stride = std::max(hidden_, head_.config_.inner_size);
    const std::array<row_array, 9> arrays{{
        {&kept_.at, kept_.stride},
        {&state_.at, state_.stride},
        {&more_.at, more_.stride},
        {&layer_.hidden, prefix ? hidden_ : 0},
        {&layer_.normed, prefix ? hidden_ : 0},
        {&layer_.qkv, prefix ? layer.q_size() + 2 * std::size_t{layer.kv_size()} : 0},
        {&layer_.attended, prefix ? layer.q_size() : 0},
        {&layer_.gate_up, prefix ? 2 * std::size_t{layer.ffn_size} : 0},
        {&rope_table_, prefix ? layer.head_dim : 0},
    }};
    divide_scratch(ops_, prefix ? static_cast<std::uint32_t>(batch_.rows.size()) : num_rows_, arrays);
  }

  /// The rows that have logits.
  device::row_batch wanted() const { return {rows_, batch_.sequences, batch_.paths}; }

  bool reads_prefix() const { return weights_.prefix.has_value() && features_.of_target != nullptr; }

  void read_target(const value_rows& to) {
    features_.of_target->read(ops_, feature_cells_, features_.of_target->place_of(head_.config_.tap), to.at,
                              to.stride);
  }

  void embed(const device::matrix& table, const value_rows& to, float scale) {
    embed_rows(ops_, table, wanted(), to.at, to.stride, scale);
  }

  /// Hydra++: s = norm(decoder_layer(h)), over the text.
  void run_prefix() {
    const model_config& config = head_.config_.layer;
    const layer_weights& layer = *weights_.prefix;
    features_.of_target->read(ops_, features_.cells, features_.of_target->place_of(head_.config_.tap),
                              layer_.hidden, hidden_);
    ops_.rope_table({batch_.rows, head_.frequencies_, config.rope.scaling.magnitude, rope_table_});
    decoder_layers layers(ops_, batch_, config, layer_);
    layers.attend(layer, {layer_.hidden, hidden_, layer.attention_norm}, {kv_.layer(0), rope_table_, 0});
    layers.feed_forward(layer);
    if (num_rows_ == 0) return;
    ops_.gather(
        {kept_.at, kept_.stride, layer_.hidden, hidden_, outputs_.logit_rows.data(), num_rows_, hidden_});
    ops_.rms_norm({kept_.at, kept_.stride, kept_.at, kept_.stride, weights_.prefix_norm, num_rows_, 1,
                   hidden_, config.norm_epsilon});
  }

  value_rows run_hydra(const chained_level& level) {
    if (features_.of_target == nullptr)
      kv_.features()->read(ops_, feature_cells_, 0, kept_.at, kept_.stride);
    else if (!reads_prefix())
      read_target(kept_);
    embed(*head_.target_->weights().token_embedding, {kept_.at + (level_ + 1) * hidden_, kept_.stride}, 1);
    product(ops_, kept_, num_rows_, *level.residual, level.residual_bias, state_);
    for (std::size_t j = 0; j < level.linear.size(); ++j) {
      product(ops_, j == 0 ? kept_ : state_, num_rows_, *level.linear[j], level.linear_bias[j], more_);
      activate(ops_, more_, hidden_, num_rows_, device::activation::silu);
      ops_.add({state_.at, state_.stride, more_.at, more_.stride, num_rows_, hidden_});
    }
    return state_;
  }

  value_rows run_speculator(const chained_level& level) {
    const std::uint32_t inner = head_.config_.inner_size;
    const float epsilon = head_.config_.layer.norm_epsilon;
    if (features_.of_target != nullptr)
      read_target(state_);
    else
      kv_.features()->read(ops_, feature_cells_, 0, state_.at, state_.stride);
    if (features_.of_target != nullptr && weights_.input_norm != nullptr)
      ops_.rms_norm({state_.at, state_.stride, state_.at, state_.stride, weights_.input_norm, num_rows_, 1,
                     hidden_, epsilon});
    product(ops_, state_, num_rows_, *level.linear[0], nullptr, kept_);
    embed(*level.embedding, more_, weights_.embedding_scale);
    ops_.add({kept_.at, kept_.stride, more_.at, more_.stride, num_rows_, inner});
    ops_.rms_norm({kept_.at, kept_.stride, kept_.at, kept_.stride, level.norm, num_rows_, 1, inner, epsilon});
    ops_.add({kept_.at, kept_.stride, level.norm_bias, 0, num_rows_, inner});
    activate(ops_, kept_, inner, num_rows_, device::activation::gelu_erf);
    return kept_;
  }

  const chained_head& head_;
  const chained_weights& weights_;
  device::ops& ops_;
  const device::row_batch& batch_;
  const head_features& features_;
  kv_cells& kv_;
  const head_outputs& outputs_;
  const std::uint32_t num_rows_; ///< with logits
  const std::uint32_t level_;
  const std::uint32_t hidden_;            ///< of the target
  std::vector<device::batch_entry> rows_; ///< those with logits; the following arrays are theirs
  std::vector<std::uint32_t> feature_cells_;
  layer_memory layer_;
  float* rope_table_ = nullptr;
  value_rows kept_;  ///< what the rows leave
  value_rows state_; ///< what they read, or Hydra's y
  value_rows more_;
};

chained_head::chained_head(chained_config config, std::unique_ptr<chained_weights> weights,
                           std::shared_ptr<const transformer> target, paceline::kv_type kv_type,
                           device::buffer_memory& memory)
    : config_(std::move(config)), weights_(std::move(weights)), target_(std::move(target)), kv_type_(kv_type),
      memory_(memory) {
  if (weights_->prefix) frequencies_ = rope_frequencies(config_.layer.rope, config_.layer.head_dim);
  info_.architecture = config_.kind == chained_kind::hydra ? "hydra" : "mlp_speculator";
  info_.vocab_size = weights_->levels.front().lm_head->num_rows();
  info_.context_length = target_->info().context_length;
  info_.num_layers = num_levels();
  info_.hidden_size = kept_size();
  for (const auto& own : weights_->matrices) info_.weights_bytes += own->size_bytes();
  if (weights_->prefix) info_.weights_bytes += weights_->prefix->matrix_bytes();
  info_.bytes_per_token = info_.weights_bytes / num_levels();
  info_.kv_bytes_per_token =
      shape_of(config_, *weights_, kv_type).bytes_per_token() + kept_size() * sizeof(float);
  info_.logits_by_ops = true;
}

std::uint32_t chained_head::num_embedded() const noexcept {
  const auto* const own = weights_->levels.front().embedding;
  return own != nullptr ? own->num_rows() : target_->info().vocab_size;
}

std::unique_ptr<kv_storage> chained_head::make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                          std::span<const layer_index> taps) const {
  PACELINE_CHECK(taps.empty(), "nobody taps a draft head");
  return std::make_unique<kv_cells>(shape_of(config_, *weights_, kv_type_), num_blocks, block_size, memory_,
                                    kept_vector(kept_size()));
}

void chained_head::forward(device::ops& ops, const device::row_batch& batch, const head_features& features,
                           kv_storage* kv, const head_outputs& outputs) const {
  auto* const cells = dynamic_cast<kv_cells*>(kv);
  PACELINE_CHECK(cells != nullptr && cells->features() != nullptr, "the KV pool is of another model");
  if (batch.rows.empty()) return;
  check_batch(batch, *kv);
  PACELINE_CHECK(features.cells.size() == batch.rows.size() && features.levels.size() == batch.rows.size() &&
                     features.levels[0] < num_levels() &&
                     std::ranges::count(features.levels, features.levels[0]) ==
                         static_cast<std::ptrdiff_t>(batch.rows.size()),
                 "rows of one level, one feature each");
  pass(*this, ops, batch, features, *cells, outputs).run();
}

} // namespace paceline::model
