#include "runtime/model/heads/dflash/dflash_head.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/op_rms_norm.hpp"
#include "runtime/device/op_rope.hpp"
#include "runtime/model/heads/head_cells.hpp"
#include "runtime/model/heads/head_ops.hpp"
#include "runtime/model/pass_rows.hpp"
#include "runtime/model/rope_frequencies.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace paceline::model {

/// A pass over rows of texts and over the rows of the blocks after some of the texts.
class dflash_head::block_pass {
 public:
  block_pass(const dflash_head& head, device::ops& ops, const device::row_batch& batch,
             const head_features& features, kv_cells& kv, const head_outputs& outputs)
      : head_(head), config_(head.config_), layer_(head.config_.layer), weights_(*head.weights_), ops_(ops),
        batch_(batch), features_(features), kv_(kv), outputs_(outputs),
        markov_(head.weights_->markov, head.config_.layer.hidden_size) {
    divide_rows();
    take_memory();
  }

  void run() {
    if (!context_.empty()) write_context();
    if (!block_.empty()) {
      run_block();
      run_markov();
      make_logits();
    }
    ops_.deliver();
  }

 private:
  /// Divides the rows into those of the text and those of blocks. Rows of blocks are ordered by slot, because
  /// in a layer with a window all rows of one slot see equally far back.
  void divide_rows() {
    std::vector<std::uint32_t> in_blocks;
    for (std::uint32_t r = 0; r < batch_.rows.size(); ++r) {
      if (features_.levels[r] != 0) {
        in_blocks.push_back(r);
        continue;
      }
      context_.push_back(batch_.rows[r]);
      context_cells_.push_back(features_.cells[r]);
    }
    std::ranges::stable_sort(in_blocks, {}, [&](std::uint32_t r) { return features_.levels[r]; });
    place_.resize(batch_.rows.size());
    for (const std::uint32_t r : in_blocks) {
      device::batch_entry row = batch_.rows[r];
      place_[r] = static_cast<std::uint32_t>(block_.size());
      if (features_.levels[r] == head_.first_level_row()) first_slots_.push_back(place_[r]);
      tokens_.push_back(features_.levels[r] == 1 ? row.token : config_.mask_token);
      previous_.push_back(row.token);
      block_.push_back(row);
      if (config_.window.is_causal) { // a slot sees the block up to its own place
        row.position = row.rotary_position();
        row.positions_back = 0;
      }
      windowed_block_.push_back(row);
    }
    PACELINE_CHECK(block_.size() % config_.block_size == 0, "blocks are run in full");
  }

  void take_memory() {
    const std::size_t text = context_.size(), slots = block_.size(), width = layer_.hidden_size;
    const std::size_t tapped = config_.taps.size() * width, kv_values = 2 * std::size_t{layer_.kv_size()};
    const std::size_t wanted = outputs_.logit_rows.size(), firsts = first_slots_.size();
    const bool has_term = config_.markov != markov_kind::none;
    float* markov_at = nullptr;
    const std::array<row_array, 14> arrays{{
        {&tapped_, text * tapped},
        {&context_vectors_, text * width},
        {&context_kv_, text * kv_values},
        {&context_table_, text * layer_.head_dim},
        {&memory_.hidden, slots * width},
        {&memory_.normed, slots * width},
        {&memory_.qkv, slots * (layer_.q_size() + kv_values)},
        {&memory_.attended, slots * layer_.q_size()},
        {&memory_.gate_up, slots * 2 * layer_.ffn_size},
        {&block_table_, slots * layer_.head_dim},
        {&markov_at, slots * markov_.width()},
        {&kept_, slots * head_.kept_size()},
        {&picked_, wanted * picked_size()},
        {&terms_, has_term ? firsts * (config_.markov_rank + std::size_t{head_.info_.vocab_size}) : 0},
    }};
    divide_scratch(ops_, 1, arrays);
    markov_.place(markov_at, static_cast<std::uint32_t>(slots));
  }

  /// The size of [norm(z) ; W1 of the previous token], which the LM head and the confidence read.
  std::size_t picked_size() const { return std::size_t{layer_.hidden_size} + config_.markov_rank; }

  device::row_batch batch_of(std::span<const device::batch_entry> rows) const {
    return {.rows = rows, .sequences = batch_.sequences, .paths = batch_.paths};
  }

  void make_table(std::span<const device::batch_entry> rows, float* table) {
    ops_.rope_table({rows, head_.frequencies_, layer_.rope.scaling.magnitude, table});
  }

  /// Writes the keys and values of the text. They are computed from c itself, without the layers' norm.
  void write_context() {
    const auto count = static_cast<std::uint32_t>(context_.size());
    const std::uint32_t width = layer_.hidden_size, head_dim = layer_.head_dim;
    const std::size_t tapped = config_.taps.size() * std::size_t{width};
    for (std::size_t t = 0; t < config_.taps.size(); ++t)
      features_.of_target->read(ops_, context_cells_, features_.of_target->place_of(config_.taps[t]),
                                tapped_ + t * width, tapped);
    product(ops_, {tapped_, tapped}, count, *weights_.fc, nullptr, {context_vectors_, width});
    ops_.rms_norm({context_vectors_, width, context_vectors_, width, weights_.context_norm, count, 1, width,
                   layer_.norm_epsilon});
    make_table(context_, context_table_);
    const device::row_batch batch = batch_of(context_);
    const std::size_t keys = layer_.kv_size(), stride = 2 * keys;
    for (std::uint32_t l = 0; l < weights_.layers.size(); ++l) {
      const layer_weights& layer = weights_.layers[l];
      const std::array outputs{
          device::matmul_output{layer.k.get(), context_kv_, stride, layer.k_bias, false},
          device::matmul_output{layer.v.get(), context_kv_ + keys, stride, layer.v_bias, false}};
      ops_.matmul({context_vectors_, width, count, width, false, outputs});
      ops_.rms_norm({context_kv_, stride, context_kv_, stride, layer.k_norm, count, layer_.num_kv_heads,
                     head_dim, layer_.norm_epsilon});
      ops_.rope({context_kv_, stride, context_table_, count, layer_.num_kv_heads, head_dim,
                 layer_.num_rotated() / 2, layer_.layout});
      ops_.kv_write({&batch, kv_.layer(l), context_kv_, context_kv_ + keys, stride});
    }
  }

  void run_block() {
    const std::uint32_t width = layer_.hidden_size;
    ops_.embed({&head_.embedding(), tokens_, memory_.hidden, width, config_.embedding_scale});
    make_table(block_, block_table_);
    const device::row_batch batch = batch_of(block_);
    decoder_layers layers(ops_, batch, layer_, memory_);
    for (std::uint32_t l = 0; l < weights_.layers.size(); ++l) {
      const layer_weights& layer = weights_.layers[l];
      const attention_input input{memory_.hidden, width, layer.attention_norm};
      const attention_view view{kv_.layer(l), block_table_, 0};
      if (config_.has_window[l])
        attend_windows(layers, layer, input, view);
      else
        layers.attend(layer, input, view);
      layers.feed_forward(layer);
    }
  }

  void attend_windows(decoder_layers& layers, const layer_weights& layer, const attention_input& input,
                      attention_view view) {
    layers.project(layer, input, view);
    const auto num_blocks = static_cast<std::uint32_t>(block_.size()) / config_.block_size;
    for (std::uint32_t slot = 0; slot < config_.block_size; ++slot) {
      view.window = config_.window.of_slot(slot, config_.block_size);
      const std::uint32_t first = slot * num_blocks;
      layers.run_attention(batch_of(std::span(windowed_block_).subspan(first, num_blocks)), first, view);
    }
    layers.add_attended(layer);
  }

  /// Computes norm(z) of every slot, and the Markov head's term for the previous token of each row. For level
  /// 0 the previous token is the anchor.
  void run_markov() {
    const auto count = static_cast<std::uint32_t>(block_.size());
    const std::uint32_t width = layer_.hidden_size;
    ops_.rms_norm({memory_.hidden, width, markov_.hidden().at, markov_.width(), weights_.output_norm, count,
                   1, width, layer_.norm_epsilon});
    markov_.begin_states(ops_);
    markov_.run(ops_, previous_);
    if (head_.kept_size() == 0) return;
    const std::uint32_t state = head_.state_size();
    const std::size_t kept = head_.kept_size();
    if (state != 0) ops_.gather({kept_, kept, markov_.state().at, markov_.width(), nullptr, count, state});
    ops_.gather({kept_ + state, kept, markov_.hidden().at, markov_.width(), nullptr, count, width});
    kv_.features()->write(ops_, cells_of(batch_of(block_), kv_.block_size()), 0, kept_, kept);
  }

  void make_logits() {
    const auto wanted = static_cast<std::uint32_t>(outputs_.logit_rows.size());
    if (wanted == 0) return;
    const std::uint32_t vocab = head_.info_.vocab_size;
    std::vector<std::uint32_t> slots;
    for (const std::uint32_t row : outputs_.logit_rows) slots.push_back(place_[row]);
    const auto picked = static_cast<std::uint32_t>(picked_size());
    ops_.gather({picked_, picked, markov_.hidden().at, markov_.width(), slots.data(), wanted, picked});
    float* const logits = ops_.place_for(outputs_.logits);
    product(ops_, {picked_, picked}, wanted, head_.lm_head(), nullptr, {logits, vocab});
    if (!outputs_.confidences.empty())
      make_confidences(ops_, weights_.markov, {picked_, picked}, wanted,
                       ops_.place_for(outputs_.confidences));
    if (config_.markov == markov_kind::none) return;
    const auto firsts = static_cast<std::uint32_t>(first_slots_.size());
    const std::uint32_t rank = config_.markov_rank;
    float* const sums = terms_ + std::size_t{firsts} * rank;
    ops_.gather({terms_, rank, markov_.term().at, markov_.width(), first_slots_.data(), firsts, rank});
    product(ops_, {terms_, rank}, firsts, *weights_.markov.logits, nullptr, {sums, vocab});
    for (std::uint32_t row = 0; row < wanted; ++row)
      if (const auto at = std::ranges::find(first_slots_, slots[row]); at != first_slots_.end())
        ops_.add({logits + std::size_t{row} * vocab, vocab,
                  sums + static_cast<std::size_t>(at - first_slots_.begin()) * vocab, vocab, 1, vocab});
  }

  const dflash_head& head_;
  const dflash_config& config_;
  const model_config& layer_;
  const dflash_weights& weights_;
  device::ops& ops_;
  const device::row_batch& batch_;
  const head_features& features_;
  kv_cells& kv_;
  const head_outputs& outputs_;
  std::vector<device::batch_entry> context_, block_, windowed_block_;
  std::vector<std::uint32_t> context_cells_; ///< in the target's pool
  std::vector<token_id> tokens_, previous_;  ///< of the slots: embedded; before the slot of level 0
  std::vector<std::uint32_t> place_;         ///< of each row: its number in `block_`
  std::vector<std::uint32_t> first_slots_;   ///< numbers in `block_` of the slots of level 0
  layer_memory memory_;
  markov_rows markov_;
  float* tapped_ = nullptr;
  float* context_vectors_ = nullptr;
  float* context_kv_ = nullptr;
  float* context_table_ = nullptr;
  float* block_table_ = nullptr;
  float* kept_ = nullptr;
  float* picked_ = nullptr;
  float* terms_ = nullptr;
};

dflash_head::dflash_head(dflash_config config, std::unique_ptr<dflash_weights> weights,
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
  std::uint64_t bytes = weights_->vectors->size_bytes() + weights_->fc->size_bytes();
  for (const layer_weights& one : weights_->layers) bytes += one.matrix_bytes();
  const markov_weights& markov = weights_->markov;
  info_.weights_bytes = bytes + markov.size_bytes();
  for (const auto* own : {&weights_->embedding, &weights_->lm_head})
    if (*own) info_.weights_bytes += (*own)->size_bytes();
  // A draft reads the layers and the LM head once for all its levels. Without Markov levels a draft is one
  // step. With Markov levels, each level is a step and has its share of these bytes.
  info_.bytes_per_token = bytes + lm_head().size_bytes();
  if (config_.markov != markov_kind::none) info_.bytes_per_token /= config_.num_levels();
  for (const auto* each : {&markov.logits, &markov.mix, &markov.confidence})
    if (*each) info_.bytes_per_token += (*each)->size_bytes();
  info_.kv_bytes_per_token = shape_of(layer, kv_type).bytes_per_token() + kept_size() * sizeof(float);
  info_.logits_by_ops = true;
}

head_traits dflash_head::traits() const noexcept {
  head_traits traits;
  traits.max_levels = config_.num_levels();
  traits.is_parallel = config_.markov == markov_kind::none;
  traits.num_block_rows = config_.block_size;
  traits.block_is_causal = false;
  traits.first_level_row = first_level_row();
  traits.has_confidence = config_.has_confidence;
  return traits;
}

std::uint32_t dflash_head::kept_size() const noexcept {
  const bool reads_states = config_.markov == markov_kind::gated || config_.markov == markov_kind::rnn ||
                            (config_.markov != markov_kind::none && config_.has_confidence);
  return reads_states ? state_size() + config_.layer.hidden_size : 0;
}

std::uint32_t dflash_head::num_embedded() const noexcept {
  const auto& previous = weights_->markov.previous;
  return previous ? std::min(embedding().num_rows(), previous->num_rows()) : embedding().num_rows();
}

std::unique_ptr<kv_storage> dflash_head::make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                         std::span<const layer_index> taps) const {
  PACELINE_CHECK(taps.empty(), "nobody taps a draft head");
  return std::make_unique<kv_cells>(shape_of(config_.layer, kv_type_), num_blocks, block_size, memory_,
                                    kept_vector(kept_size()));
}

void dflash_head::forward(device::ops& ops, const device::row_batch& batch, const head_features& features,
                          kv_storage* kv, const head_outputs& outputs) const {
  auto* const cells = dynamic_cast<kv_cells*>(kv);
  PACELINE_CHECK(cells != nullptr && cells->num_layers() == config_.layer.num_layers &&
                     (cells->features() != nullptr) == (kept_size() != 0),
                 "the KV pool is of another model");
  PACELINE_CHECK(features.cells.size() == batch.rows.size() && features.levels.size() == batch.rows.size(),
                 "one feature and one level a row");
  PACELINE_CHECK(outputs.logits.size() == outputs.logit_rows.size() * std::uint64_t{info_.vocab_size},
                 "room for " + std::to_string(outputs.logits.size()) + " logits");
  PACELINE_CHECK(outputs.confidences.empty() ||
                     (config_.has_confidence && outputs.confidences.size() == outputs.logit_rows.size()),
                 "room for " + std::to_string(outputs.confidences.size()) + " confidences");
  check_batch(batch, *kv);
  if (batch.rows.empty()) return;
  if (features.of_target != nullptr) {
    PACELINE_CHECK(std::ranges::all_of(outputs.logit_rows,
                                       [&](std::uint32_t row) {
                                         return row < batch.rows.size() &&
                                                features.levels[row] >= first_level_row();
                                       }),
                   "slots that give a token have logits");
    block_pass(*this, ops, batch, features, *cells, outputs).run();
    return;
  }
  PACELINE_CHECK(config_.markov != markov_kind::none && outputs.logit_rows.size() == batch.rows.size(),
                 "rows of a draft are a Markov head's, and give logits");
  complete_levels(ops, batch, features, *cells, outputs);
}

} // namespace paceline::model
