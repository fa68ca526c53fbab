#include "runtime/model/transformer.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/op_chain.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/op_rms_norm.hpp"
#include "runtime/device/op_rope.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/model/pass_rows.hpp"
#include "runtime/model/rope_frequencies.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace paceline::model {
namespace {

model_info describe(const model_config& config, const transformer_weights& weights, const kv_shape& kv,
                    std::span<const std::uint32_t> layers) {
  model_info info;
  info.architecture = to_string(config.arch);
  info.vocab_size = config.vocab_size;
  info.context_length = config.context_length;
  info.num_layers = static_cast<std::uint32_t>(layers.size());
  info.hidden_size = config.hidden_size;
  const std::uint64_t vector_bytes = weights.vectors->size_bytes() / config.num_layers * layers.size();
  std::uint64_t layer_bytes = vector_bytes, bytes_per_row = vector_bytes;
  for (const std::uint32_t number : layers) {
    layer_bytes += weights.layers[number].matrix_bytes();
    bytes_per_row += weights.layers[number].bytes_per_row(config.experts.routing.num_used);
  }
  info.weights_bytes = layer_bytes + weights.token_embedding->size_bytes();
  if (weights.output) info.weights_bytes += weights.output->size_bytes();
  const std::uint64_t embedding_row = weights.token_embedding->size_bytes() / config.vocab_size;
  info.bytes_per_token = bytes_per_row + weights.head().size_bytes() + embedding_row;
  info.kv_bytes_per_token = kv.bytes_per_token();
  info.state_bytes = kv.states.bytes();
  info.logits_by_ops = true;
  return info;
}

} // namespace

/// One forward pass. The intermediate values of all rows are in one piece of the stream's scratch memory.
class transformer::pass {
 public:
  pass(const transformer& model, device::ops& ops, const device::row_batch& batch, kv_cells& kv,
       const forward_outputs& outputs, std::span<const std::uint32_t> layers)
      : model_(model), config_(model.config_), ops_(ops), batch_(batch), kv_(kv), outputs_(outputs),
        layers_(layers), num_rows_(static_cast<std::uint32_t>(batch.rows.size())),
        hidden_size_(config_.hidden_size), q_size_(config_.q_size()), kv_size_(config_.kv_size()) {
    take_memory();
  }

  void run() {
    if (kv_.features()) cells_ = cells_of(batch_, kv_.block_size());
    embed();
    make_rope_tables();
    decoder_layers layer_ops(ops_, batch_, config_, memory_);
    for (std::uint32_t l = 0; l < layers_.size(); ++l) {
      mix_tokens(layer_ops, layers_[l]);
      layer_ops.feed_forward(model_.weights_.layers[layers_[l]]);
      for (const tap& t : outputs_.taps)
        if (t.layer.value == l) copy_hidden(ops_.place_for(t.out));
      keep_features(l, memory_.hidden);
    }
    finish(layer_ops);
    ops_.deliver();
  }

 private:
  void take_memory() {
    const bool local = !model_.local_frequencies_.empty();
    const bool convolves = config_.num_layers_of(layer_kind::short_conv) != 0;
    const bool has_rules = config_.num_layers_of(layer_kind::gated_delta) != 0;
    const feed_forward_sizes feed_forward = feed_forward_row_sizes(config_);
    const std::array<row_array, 14> arrays{{
        {&memory_.hidden, hidden_size_},
        {&memory_.normed, hidden_size_},
        {&memory_.qkv, q_size_ + 2 * std::size_t{kv_size_}},
        {&memory_.attended, q_size_},
        {&memory_.conv, convolves ? 3 * std::size_t{hidden_size_} : 0},
        {&memory_.delta, has_rules ? delta_row_size(config_) : 0},
        {&memory_.gates, config_.attention_gate ? q_size_ : 0},
        {&memory_.gate_up, feed_forward.gate_up},
        {&memory_.experts, feed_forward.experts},
        {&memory_.shared, feed_forward.shared},
        {&memory_.shared_out, feed_forward.shared_out},
        {&rope_table_, config_.head_dim},
        {&local_rope_table_, local ? config_.head_dim : 0},
        {&query_rope_table_, config_.growth.period != 0 ? config_.head_dim : 0},
    }};
    logits_ = divide_scratch(ops_, num_rows_, arrays,
                             outputs_.choices != nullptr ? num_logit_rows() * config_.vocab_size : 0);
  }

  void embed() {
    embed_rows(ops_, *model_.weights_.token_embedding, batch_, memory_.hidden, hidden_size_,
               config_.embedding_scale);
    put_given_inputs(ops_, batch_, config_.vocab_size, memory_.normed, memory_.hidden, hidden_size_);
  }

  void make_rope_tables() {
    ops_.rope_table({batch_.rows, model_.frequencies_, config_.rope.scaling.magnitude, rope_table_});
    if (config_.growth.period != 0)
      ops_.rope_table({batch_.rows, model_.frequencies_, config_.rope.scaling.magnitude, query_rope_table_,
                       config_.growth});
    if (model_.local_frequencies_.empty()) return;
    ops_.rope_table(
        {batch_.rows, model_.local_frequencies_, config_.local_rope.scaling.magnitude, local_rope_table_});
  }

  /// Runs the part of a layer before its feed-forward block.
  void mix_tokens(decoder_layers& layer_ops, std::uint32_t layer) {
    const layer_weights& weights = model_.weights_.layers[layer];
    if (const layer_kind kind = config_.kind_of(layer); kind != layer_kind::attention) {
      const std::uint32_t number = num_recurrences_++;
      if (kind == layer_kind::short_conv) return layer_ops.convolve(weights, kv_.conv_states(number));
      const auto* const unit_norm = reinterpret_cast<const float*>(model_.unit_norm_->data());
      return layer_ops.apply_delta_rule(weights, {kv_.conv_states(number), kv_.delta_states(number)},
                                        unit_norm);
    }
    const bool local = config_.is_local(layer);
    const float* const table = local ? local_rope_table_ : rope_table_;
    layer_ops.attend(weights, {memory_.hidden, hidden_size_, weights.attention_norm},
                     {kv_.layer(num_attentions_++), config_.is_rotated(layer) ? table : nullptr,
                      local ? config_.sliding_window : 0,
                      config_.growth.period != 0 ? query_rope_table_ : nullptr});
  }

  void copy_hidden(float* out) {
    ops_.gather({out, hidden_size_, memory_.hidden, hidden_size_, nullptr, num_rows_, hidden_size_});
  }

  /// Keeps the hidden states of all rows after layer `layer`, for the drafters that read them.
  void keep_features(std::uint32_t layer, const float* x) {
    const feature_cells* const features = kv_.features();
    if (features == nullptr) return;
    for (std::size_t tap = 0; tap < features->taps.size(); ++tap)
      if (features->taps[tap].value == layer) features->write(ops_, cells_, tap, x, hidden_size_);
  }
  bool keeps_final_features() const {
    const feature_cells* const features = kv_.features();
    return features != nullptr && std::ranges::count(features->taps, layer_index{num_layers()}) > 0;
  }
  std::uint32_t num_layers() const { return static_cast<std::uint32_t>(layers_.size()); }

  /// Applies the final norm: to all rows if there is a tap, and to the wanted rows before the head.
  void finish(decoder_layers& layer_ops) {
    const float* weight = model_.weights_.output_norm;
    for (const tap& t : outputs_.taps)
      if (t.layer.value == layers_.size())
        layer_ops.norm(memory_.hidden, ops_.place_for(t.out), weight, num_rows_);
    if (keeps_final_features()) {
      layer_ops.norm(memory_.hidden, memory_.normed, weight, num_rows_);
      keep_features(num_layers(), memory_.normed);
    }
    if (num_logit_rows() == 0) return;
    if (outputs_.choices == nullptr) {
      make_logits(outputs_.logit_rows, ops_.place_for(outputs_.logits));
      return;
    }
    std::vector<std::uint32_t> rows(outputs_.logit_rows.begin(), outputs_.logit_rows.end());
    rows.insert(rows.end(), outputs_.choices->rows.begin(), outputs_.choices->rows.end());
    make_logits(rows, logits_);
    const std::size_t width = config_.vocab_size;
    if (const auto for_host = static_cast<std::uint32_t>(outputs_.logit_rows.size()); for_host > 0)
      ops_.gather(
          {ops_.place_for(outputs_.logits), width, logits_, width, nullptr, for_host, config_.vocab_size});
    const device::chosen_run* const chosen =
        ops_.choose({logits_ + outputs_.logit_rows.size() * width,
                     static_cast<std::uint32_t>(outputs_.choices->rows.size()), config_.vocab_size,
                     outputs_.choices->requests, outputs_.choices->out});
    const feature_cells* const features = kv_.features();
    const auto beside =
        features != nullptr
            ? device::cell_vectors{features->values, static_cast<std::uint32_t>(features->width())}
            : device::cell_vectors{};
    if (!outputs_.choices->drafts.empty())
      ops_.kv_commit({&batch_, kv_.layers(), chosen, outputs_.choices->drafts, beside});
  }

  /// Computes the logits of some rows after the final norm.
  void make_logits(std::span<const std::uint32_t> rows, float* out) {
    const auto wanted = static_cast<std::uint32_t>(rows.size());
    ops_.gather(
        {memory_.normed, hidden_size_, memory_.hidden, hidden_size_, rows.data(), wanted, hidden_size_});
    ops_.rms_norm({memory_.normed, hidden_size_, memory_.normed, hidden_size_, model_.weights_.logits_norm,
                   wanted, 1, hidden_size_, config_.norm_epsilon});
    const std::array outputs{
        device::matmul_output{&model_.weights_.head(), out, config_.vocab_size, nullptr, false}};
    ops_.matmul({memory_.normed, hidden_size_, wanted, hidden_size_, false, outputs});
  }

  std::size_t num_logit_rows() const {
    return outputs_.logit_rows.size() + (outputs_.choices != nullptr ? outputs_.choices->rows.size() : 0);
  }

  const transformer& model_;
  const model_config& config_;
  device::ops& ops_;
  const device::row_batch& batch_;
  kv_cells& kv_;
  const forward_outputs& outputs_;
  const std::span<const std::uint32_t> layers_; ///< the layers that run
  const std::uint32_t num_rows_;
  const std::uint32_t hidden_size_;
  const std::uint32_t q_size_;
  const std::uint32_t kv_size_;
  /// Layers with attention so far, and recurrent ones: the pool numbers these two separately.
  std::uint32_t num_attentions_ = 0;
  std::uint32_t num_recurrences_ = 0;
  std::vector<std::uint32_t> cells_; ///< of the rows, if the pool keeps features
  layer_memory memory_;
  float* rope_table_ = nullptr;
  float* logits_ = nullptr; ///< used if the device chooses tokens
  float* local_rope_table_ = nullptr;
  float* query_rope_table_ = nullptr; ///< used if queries grow
};

transformer::transformer(model_config config, transformer_weights weights, paceline::kv_type kv_type,
                         device::buffer_memory& memory)
    : config_(std::move(config)), weights_(std::move(weights)), memory_(memory),
      frequencies_(rope_frequencies(config_.rope, config_.num_rotated())), kv_type_(kv_type),
      all_layers_(config_.num_layers) {
  std::iota(all_layers_.begin(), all_layers_.end(), 0U);
  info_ = describe(config_, weights_, shape_of(all_layers_), all_layers_);
  if (config_.sliding_window != 0)
    local_frequencies_ = rope_frequencies(config_.local_rope, config_.num_rotated());
  if (config_.num_layers_of(layer_kind::gated_delta) != 0) {
    const std::vector<float> norm(config_.delta.key_dim,
                                  1 / std::sqrt(static_cast<float>(config_.delta.key_dim)));
    unit_norm_ = memory.allocate(norm.size() * sizeof(float));
    unit_norm_->upload(0, std::as_bytes(std::span(norm)));
  }
}

std::unique_ptr<kv_storage> transformer::make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                         std::span<const layer_index> taps) const {
  return std::make_unique<kv_cells>(shape_of(all_layers_), num_blocks, block_size, memory_,
                                    feature_shape{taps, config_.hidden_size});
}

kv_shape transformer::shape_of(std::span<const std::uint32_t> layers) const {
  return shape_of_cells(config_, kv_type_, layers);
}

void transformer::forward(device::ops& ops, const device::row_batch& batch, kv_storage& kv,
                          const forward_outputs& outputs) const {
  run(ops, batch, kv, outputs, all_layers_);
}

kv_cells& transformer::own_cells(kv_storage& kv, std::span<const std::uint32_t> layers) const {
  auto* cells = dynamic_cast<kv_cells*>(&kv);
  PACELINE_CHECK(cells != nullptr && cells->num_layers() == shape_of(layers).num_layers,
                 "the KV pool is of another model");
  return *cells;
}

void transformer::run(device::ops& ops, const device::row_batch& batch, kv_storage& kv,
                      const forward_outputs& outputs, std::span<const std::uint32_t> layers) const {
  kv_cells& cells = own_cells(kv, layers);
  check_batch(batch, kv);
  if (info_.state_bytes != 0) device::check_states(batch.states, batch.rows.size(), cells.num_state_slots());
  PACELINE_CHECK(outputs.logits.size() == outputs.logit_rows.size() * std::uint64_t{config_.vocab_size},
                 "room for " + std::to_string(outputs.logits.size()) + " logits");
  for (const std::uint32_t row : outputs.logit_rows)
    PACELINE_CHECK(row < batch.rows.size(), "logits of row " + std::to_string(row));
  if (outputs.choices != nullptr) {
    PACELINE_CHECK(outputs.logit_rows.size() + outputs.choices->rows.size() <= batch.rows.size(),
                   "a row for the host is not one for the device");
    for (const std::uint32_t row : outputs.choices->rows)
      PACELINE_CHECK(row < batch.rows.size(), "choice of row " + std::to_string(row));
    for (const device::drafted_cells& draft : outputs.choices->drafts)
      PACELINE_CHECK(draft.choice < outputs.choices->requests.size(),
                     "cells of choice " + std::to_string(draft.choice));
  }
  for (const tap& t : outputs.taps)
    PACELINE_CHECK(t.layer.value <= layers.size() &&
                       t.out.size() == batch.rows.size() * std::uint64_t{config_.hidden_size},
                   "tap of layer " + to_string(t.layer));
  if (batch.rows.empty()) return;
  pass(*this, ops, batch, cells, outputs, layers).run();
}

bool transformer::run_chain(device::ops& ops, const device::chain_args& chain, kv_storage& kv) const {
  return run_chain(ops, chain, kv, all_layers_);
}

/// The device receives the pass of the first step, followed by a choice for every row.
bool transformer::run_chain(device::ops& ops, const device::chain_args& chain, kv_storage& kv,
                            std::span<const std::uint32_t> layers) const {
  if (!ops.can_chain() || info_.state_bytes != 0) return false; // a chain's steps do not keep states
  kv_cells& cells = own_cells(kv, layers);
  std::vector<device::batch_entry> entries;
  for (const device::chain_row& row : chain.rows) {
    PACELINE_CHECK(row.entry.token.value < static_cast<std::int64_t>(config_.vocab_size),
                   "a chain's token " + to_string(row.entry.token));
    entries.push_back(row.entry);
  }
  check_batch({entries, chain.sequences, {}}, kv);
  const device::row_batch first{std::span(entries).first(chain.num_rows), chain.sequences, {}};
  std::vector<std::uint32_t> rows(chain.num_rows);
  std::iota(rows.begin(), rows.end(), 0U);
  std::vector<device::chosen_run> unused(chain.num_rows);
  const device_choices choices{rows, chain.requests, unused, {}};
  forward_outputs outputs;
  outputs.choices = &choices;
  return ops.chain(chain, [&] { pass(*this, ops, first, cells, outputs, layers).run(); });
}

/// Some layers of a transformer, with its weights and memory.
class transformer::part final : public language_model {
 public:
  part(const transformer& whole, std::span<const std::uint32_t> layers)
      : whole_(whole), layers_(layers.begin(), layers.end()),
        info_(describe(whole.config_, whole.weights_, whole.shape_of(layers), layers)) {
    info_.weights_bytes = 0; // they belong to the whole model
  }

  const model_info& info() const noexcept override { return info_; }
  std::unique_ptr<kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                              std::span<const layer_index> taps) const override {
    return std::make_unique<kv_cells>(whole_.shape_of(layers_), num_blocks, block_size, whole_.memory_,
                                      feature_shape{taps, info_.hidden_size});
  }
  void forward(device::ops& ops, const device::row_batch& batch, kv_storage& kv,
               const forward_outputs& outputs) const override {
    whole_.run(ops, batch, kv, outputs, layers_);
  }
  bool run_chain(device::ops& ops, const device::chain_args& chain, kv_storage& kv) const override {
    return whole_.run_chain(ops, chain, kv, layers_);
  }

 private:
  const transformer& whole_;
  std::vector<std::uint32_t> layers_;
  model_info info_;
};

std::unique_ptr<const language_model> transformer::part_of(std::span<const std::uint32_t> layers) const {
  PACELINE_CHECK(!layers.empty() && std::is_sorted(layers.begin(), layers.end()) &&
                     layers.back() < config_.num_layers,
                 "layers of a part");
  if (info_.state_bytes != 0) return nullptr; // a part would need its own states
  return std::make_unique<part>(*this, layers);
}

} // namespace paceline::model
