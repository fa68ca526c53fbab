#include "runtime/model/hash_model.hpp"

#include "runtime/base/check.hpp"
#include "runtime/model/pass_rows.hpp"

#include <algorithm>
#include <atomic>

namespace paceline::model {

namespace {

struct cell {
  std::uint64_t prefix = 0; ///< hash of tokens 0..position
  std::uint32_t token = 0;
  std::uint32_t num_given = 0; ///< rows up to this one, in a row, whose input was given
};

constexpr std::uint64_t poison_pattern = 0xDEADBEEFDEADBEEFULL;
constexpr std::uint32_t poisoned_token = 0xDEADBEEFU;
constexpr std::uint32_t state_pieces = 4;
constexpr std::uint32_t hidden_values = state_pieces + 1; ///< and the position

/// The finaliser of SplitMix64 over a combination of two words.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

class hash_kv final : public kv_storage {
 public:
  hash_kv(std::uint32_t num_blocks, std::uint32_t block_size, std::span<const layer_index> taps)
      : num_blocks_(num_blocks), block_size_(block_size), cells_(std::size_t{num_blocks} * block_size),
        feature_values_(cells_.size() * taps.size() * hidden_values) {
    features_ = {feature_values_.data(), {taps.begin(), taps.end()}, hidden_values, num_blocks, block_size};
  }

  void make_states(std::uint32_t num_slots) override { states_.assign(num_slots, 0); }
  std::uint32_t num_state_slots() const noexcept override {
    return static_cast<std::uint32_t>(states_.size());
  }
  void poison_states(std::span<const state_slot> slots) override {
    for (const auto slot : slots) states_.at(slot.value) = poison_pattern;
  }
  std::uint64_t& state_at(state_slot slot) { return states_.at(slot.value); }

  std::uint32_t num_blocks() const noexcept override { return num_blocks_; }
  std::uint32_t block_size() const noexcept override { return block_size_; }

  void copy(device::ops& ops, std::span<const device::kv_copy> copies) override {
    copy_from(ops, *this, copies);
    for (const auto& c : copies)
      for (std::uint32_t i = 0; i < c.num_cells && !feature_values_.empty(); ++i)
        std::ranges::copy(features_at(c.from_block.value * block_size_ + c.from_offset + i),
                          features_at(c.to_block.value * block_size_ + c.to_offset + i).begin());
  }

  void copy_from(device::ops&, const kv_storage& from, std::span<const device::kv_copy> copies) override {
    const auto& other = dynamic_cast<const hash_kv&>(from);
    for (const auto& c : copies) {
      const auto* cells = &other.at(std::uint64_t{c.from_block.value} * block_size_ + c.from_offset);
      std::copy_n(cells, c.num_cells, &at(std::uint64_t{c.to_block.value} * block_size_ + c.to_offset));
    }
  }

  void poison(std::span<const block_id> blocks) override {
    for (auto b : blocks)
      std::fill_n(&at(std::uint64_t{b.value} * block_size_), block_size_,
                  cell{poison_pattern, poisoned_token, 0});
    for (auto b : blocks)
      for (std::uint32_t i = 0; i < block_size_ && !feature_values_.empty(); ++i)
        std::ranges::fill(features_at(b.value * block_size_ + i), std::numeric_limits<float>::quiet_NaN());
  }

  const feature_cells* features() const noexcept override {
    return feature_values_.empty() ? nullptr : &features_;
  }
  std::span<float> features_at(std::uint64_t index) {
    return std::span(feature_values_).subspan(checked(index) * features_.width(), features_.width());
  }

  cell& at(std::uint64_t index) { return cells_[checked(index)]; }
  const cell& at(std::uint64_t index) const { return cells_[checked(index)]; }

 private:
  /// This function is called for every cell that a pass reads, so the error message is made in another
  /// function.
  std::uint64_t checked(std::uint64_t index) const {
    if (index >= cells_.size()) [[unlikely]]
      refuse(index);
    return index;
  }
  [[noreturn, gnu::cold, gnu::noinline]] void refuse(std::uint64_t index) const {
    fail_check("index < cells_.size()", __FILE__, __LINE__,
               "cell " + std::to_string(index) + " of " + std::to_string(cells_.size()));
  }

  std::uint32_t num_blocks_;
  std::uint32_t block_size_;
  std::vector<cell> cells_;
  std::vector<float> feature_values_;
  std::vector<std::uint64_t> states_; ///< by slot: the hash of a text
  feature_cells features_;
};

/// Reads the cells of a context in position order.
class context_reader {
 public:
  explicit context_reader(std::uint32_t memory) : memory_(memory) {}

  void visit(std::uint64_t position, const cell& c) {
    const std::uint64_t expected = mix(mix(prefix_, c.token), position);
    if (c.prefix != expected) broken_ = mix(broken_ + 1, c.prefix ^ position);
    prefix_ = c.prefix;
    num_given_ = c.num_given;
    if (memory_ != 0) {
      if (recent_.size() == memory_) recent_.erase(recent_.begin());
      recent_.push_back(c.token);
    }
  }

  std::uint64_t prefix() const { return prefix_; }
  std::uint32_t num_given() const { return num_given_; }
  std::uint64_t state() const {
    std::uint64_t s = 0;
    if (memory_ == 0) s = prefix_;
    for (auto t : recent_) s = mix(s, t);
    return broken_ == 0 ? s : mix(s, broken_);
  }

 private:
  std::uint32_t memory_;
  std::uint64_t prefix_ = 0;
  std::uint64_t broken_ = 0;
  std::uint32_t num_given_ = 0;
  std::vector<std::uint64_t> recent_;
};

cell next_cell(std::uint64_t prefix, token_id token, std::uint64_t position) {
  const auto t = static_cast<std::uint32_t>(token.value);
  return {mix(mix(prefix, t), position), t};
}

/// Writes a state as hidden values of 16 bits each, which a float represents exactly, and its position.
void write_state(std::uint64_t state, token_position position, std::span<float> out) {
  for (std::uint32_t i = 0; i < state_pieces; ++i) out[i] = static_cast<float>((state >> (16 * i)) & 0xFFFFU);
  out[state_pieces] = static_cast<float>(position.value);
}
std::uint64_t state_of(std::span<const float> hidden) {
  std::uint64_t state = 0;
  for (std::uint32_t i = 0; i < state_pieces; ++i) state |= static_cast<std::uint64_t>(hidden[i]) << (16 * i);
  return state;
}

} // namespace

hash_model::hash_model(const hash_model_config& config) : config_(config), num_running_(config.num_layers) {
  info_.architecture = "hash";
  info_.vocab_size = config.vocab_size;
  info_.context_length = config.context_length;
  info_.num_layers = config.num_layers;
  info_.hidden_size = hidden_values;
  info_.kv_bytes_per_token = sizeof(cell);
  info_.state_bytes = config.recurrent ? sizeof(std::uint64_t) : 0;
}

std::unique_ptr<kv_storage> hash_model::make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                        std::span<const layer_index> taps) const {
  return std::make_unique<hash_kv>(num_blocks, block_size, taps);
}

std::unique_ptr<const language_model> hash_model::part_of(std::span<const std::uint32_t> layers) const {
  PACELINE_CHECK(!layers.empty() && layers.size() <= config_.num_layers, "a part has 1 to all layers");
  if (config_.recurrent) return nullptr;
  auto part = std::make_unique<hash_model>(*this);
  part->num_running_ = part->info_.num_layers = static_cast<std::uint32_t>(layers.size());
  return part;
}

void hash_model::write_logits(std::uint64_t state, std::span<float> out) const {
  std::uint64_t seed = mix(state, config_.salt);
  if (seed % config_.num_layers >= num_running_) seed = mix(seed, num_running_);
  for (std::size_t v = 0; v < out.size(); ++v)
    out[v] = config_.sharpness * static_cast<float>(mix(seed, v) >> 40) * 0x1p-24F;
}

/// The token that a row with a given input represents, after a context with this state.
token_id hash_model::token_for(const device::row_batch& batch, const device::batch_entry& row,
                               std::uint64_t state, std::uint32_t num_given) const {
  const std::uint32_t input = given_input(batch, row, config_.vocab_size);
  std::vector<float> logits(config_.vocab_size);
  write_logits(state, logits);
  const auto likeliest = static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
  const bool is_in_turn = batch.inputs[std::size_t{input} * hidden_values] == static_cast<float>(num_given);
  return token_id{static_cast<std::int32_t>((likeliest + (is_in_turn ? 0 : 1)) % config_.vocab_size)};
}

void hash_model::forward(device::ops&, const device::row_batch& batch, kv_storage& kv,
                         const forward_outputs& outputs) const {
  PACELINE_CHECK(outputs.choices == nullptr, "no op makes the hash model's logits");
  auto& cells = dynamic_cast<hash_kv&>(kv);
  if (config_.recurrent) device::check_states(batch.states, batch.rows.size(), kv.num_state_slots());
  std::vector<std::uint64_t> text_hashes(config_.recurrent ? batch.rows.size() : 0);
  std::size_t next_output = 0;
  std::atomic<std::uint64_t> burnt{0};
  for (std::uint32_t i = 0; i < config_.pass_work; ++i)
    burnt.store(mix(burnt.load(std::memory_order_relaxed), i), std::memory_order_relaxed);
  for (std::size_t r = 0; r < batch.rows.size(); ++r) {
    const auto& row = batch.rows[r];
    const auto& sequence = batch.sequences[row.sequence];
    context_reader reader(config_.memory);
    for (std::uint32_t p = 0; p < row.position.value; ++p)
      reader.visit(p, cells.at(cell_of(sequence, slot_of(batch, row, token_position{p}), kv.block_size())));
    auto& own = cells.at(cell_of(sequence, row.slot, kv.block_size()));
    const bool is_given = given_input(batch, row, config_.vocab_size) < batch.num_inputs;
    const token_id token = is_given ? token_for(batch, row, reader.state(), reader.num_given()) : row.token;
    own = next_cell(reader.prefix(), token, row.position.value);
    if (is_given) own.num_given = reader.num_given() + 1;
    reader.visit(row.position.value, own);

    std::uint64_t state = reader.state();
    if (config_.recurrent) {
      const device::row_state& own_state = batch.states[r];
      const std::uint64_t before = own_state.parent >= 0
                                       ? text_hashes[static_cast<std::size_t>(own_state.parent)]
                                   : own_state.read ? cells.state_at(*own_state.read)
                                                    : 0;
      text_hashes[r] = next_cell(before, token, row.position.value).prefix;
      if (own_state.write) cells.state_at(*own_state.write) = text_hashes[r];
      if (text_hashes[r] != reader.prefix()) state = mix(state, text_hashes[r]);
    }
    if (cells.features() != nullptr) {
      const auto kept = cells.features_at(cell_of(sequence, row.slot, kv.block_size()));
      for (std::size_t at = 0; at < kept.size(); at += hidden_values)
        write_state(state, row.position, kept.subspan(at, hidden_values));
    }
    for (const auto& t : outputs.taps)
      write_state(state, row.position, t.out.subspan(r * hidden_values, hidden_values));
    if (next_output < outputs.logit_rows.size() && outputs.logit_rows[next_output] == r)
      write_logits(state, outputs.logits.subspan(next_output++ * info_.vocab_size, info_.vocab_size));
  }
}

std::vector<float> hash_model::logits_after(std::span<const token_id> context) const {
  context_reader reader(config_.memory);
  for (std::size_t p = 0; p < context.size(); ++p) reader.visit(p, next_cell(reader.prefix(), context[p], p));
  std::vector<float> out(info_.vocab_size);
  write_logits(reader.state(), out);
  return out;
}

std::vector<float> hash_model::logits_of_state(std::span<const float> hidden) const {
  std::vector<float> out(info_.vocab_size);
  write_logits(state_of(hidden), out);
  return out;
}

token_position hash_model::position_of(std::span<const float> hidden) noexcept {
  return token_position{static_cast<std::uint32_t>(hidden[state_pieces])};
}

std::vector<float> hash_model::next_state(std::span<const float> hidden, token_id token,
                                          token_position position) const {
  std::vector<float> out(hidden_values);
  write_state(next_cell(state_of(hidden), token, position.value).prefix, position, out);
  return out;
}

} // namespace paceline::model
