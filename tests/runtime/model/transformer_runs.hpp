#pragma once

#include "runtime/model/kv_cells.hpp"
#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/transformer.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/tiny_model.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace paceline::test {

inline std::vector<token_id> some_tokens(std::size_t n, std::uint32_t vocab_size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<token_id> tokens;
  for (std::size_t i = 0; i < n; ++i) tokens.emplace_back(static_cast<std::int32_t>(random() % vocab_size));
  return tokens;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

struct model_file {
  explicit model_file(const tiny_model& options) : bytes(make_tiny_gguf(options).build()) {
    auto parsed = model::gguf_file::parse(bytes, "tiny.gguf");
    if (!parsed) throw std::runtime_error(parsed.error().message());
    file.emplace(std::move(*parsed));
  }
  std::vector<std::byte> bytes;
  std::optional<model::gguf_file> file;
};

/// A pool with sequences at random places, whose rows all get their logits.
class runner {
 public:
  runner(cpu_model& model, std::uint32_t block_size, std::uint32_t num_blocks, std::uint32_t seed)
      : model_(model), paged(block_size, num_blocks, seed), kv(model.make_kv(num_blocks, block_size)) {
    std::vector<block_id> all;
    for (std::uint32_t b = 0; b < num_blocks; ++b) all.emplace_back(b);
    kv->poison(all); // makes reads of unwritten cells visible
    if (model.get().info().state_bytes == 0) return;
    kv->make_states(most_sequences * block_size * num_blocks);
    std::vector<state_slot> slots;
    for (std::uint32_t s = 0; s < kv->num_state_slots(); ++s) slots.emplace_back(s);
    kv->poison_states(slots);
  }

  /// Runs `rows`; returns the logits of all of them, or of the wanted ones.
  std::vector<float> run(const std::vector<device::batch_entry>& rows, std::vector<model::tap> taps = {},
                         std::vector<std::uint32_t> wanted = {}) {
    if (wanted.empty()) {
      wanted.resize(rows.size());
      std::iota(wanted.begin(), wanted.end(), 0U);
    }
    std::vector<float> logits(wanted.size() * model_.get().info().vocab_size);
    auto batch = paged.batch(rows);
    std::vector<device::row_state> states;
    if (kv->num_state_slots() != 0) states = states_of(batch);
    batch.states = states;
    model_.forward(batch, *kv, {wanted, logits, taps});
    return logits;
  }

  /// Copies the state of one slot's row to another slot of the sequence, as for its cell.
  void move_state(std::uint32_t sequence, std::uint32_t from, std::uint32_t to) {
    moved_[{sequence, to}] = place_of(sequence, from);
  }

  /// Positions [begin, end) of a sequence, with tokens.
  std::vector<device::batch_entry> rows(std::uint32_t sequence, std::span<const token_id> tokens,
                                        std::size_t begin, std::size_t end) {
    auto out = paged.chain_rows(sequence, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end));
    for (auto& row : out) row.token = tokens[row.position.value];
    return out;
  }

  /// Every layer's keys and values in `slot`, as bytes.
  std::vector<std::byte> cell(std::uint32_t sequence, std::uint32_t slot) const {
    const auto& cells = dynamic_cast<const model::kv_cells&>(*kv);
    const device::kv_copy at = paged.copy_of(sequence, slot, slot);
    std::vector<std::byte> out;
    for (std::uint32_t l = 0; l < cells.num_layers(); ++l) {
      const device::kv_layer& layer = cells.layer(l);
      const std::size_t size = traits_of(layer.type).value_bytes;
      for (std::uint32_t h = 0; h < layer.num_heads; ++h) {
        if (layer.type == kv_type::q8)
          for (const float* scales : {layer.key_scales, layer.value_scales}) {
            const auto scale =
                std::as_bytes(std::span(scales + layer.scale_index(at.from_block, h, at.from_offset), 1));
            out.insert(out.end(), scale.begin(), scale.end());
          }
        for (std::uint32_t d = 0; d < layer.head_dim; ++d) {
          const auto* key = static_cast<std::byte*>(layer.keys) +
                            layer.key_index(at.from_block, h, at.from_offset, d) * size;
          const auto* value = static_cast<std::byte*>(layer.values) +
                              layer.value_index(at.from_block, h, at.from_offset, d) * size;
          out.insert(out.end(), key, key + size);
          out.insert(out.end(), value, value + size);
        }
      }
    }
    return out;
  }

 private:
  static constexpr std::uint32_t most_sequences = 4;

  /// Every row leaves its state in a slot of its own.
  state_slot place_of(std::uint32_t sequence, std::uint32_t slot) const {
    if (const auto moved = moved_.find({sequence, slot}); moved != moved_.end()) return moved->second;
    return state_slot{sequence * kv->block_size() * kv->num_blocks() + slot};
  }

  std::vector<device::row_state> states_of(const device::row_batch& batch) const {
    std::vector<device::row_state> states;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::int32_t> row_of; // by sequence and slot
    for (const auto& row : batch.rows) {
      device::row_state state;
      if (row.position.value > 0) {
        const auto before = slot_of(batch, row, token_position{row.position.value - 1}).value;
        const auto found = row_of.find({row.sequence, before});
        if (found != row_of.end())
          state.parent = found->second;
        else
          state.read = place_of(row.sequence, before);
      }
      state.write = place_of(row.sequence, row.slot.value);
      row_of[{row.sequence, row.slot.value}] = static_cast<std::int32_t>(states.size());
      states.push_back(state);
    }
    return states;
  }

  cpu_model& model_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, state_slot> moved_; ///< by sequence and slot

 public:
  paged_sequences paged;
  std::unique_ptr<model::kv_storage> kv;
};

/// The result that every other way to compute the same rows must equal.
struct truth {
  std::vector<float> logits;
  std::vector<std::vector<std::byte>> cells;

  std::span<const float> row(std::size_t p) const {
    const std::size_t width = logits.size() / cells.size();
    return std::span(logits).subspan(p * width, width);
  }
};

/// Logits and cells of `tokens`, `rows_per_pass` rows at a time.
inline truth compute(cpu_model& model, std::span<const token_id> tokens, std::size_t rows_per_pass) {
  runner run(model, 16, static_cast<std::uint32_t>(tokens.size() / 16 + 2), 99);
  run.paged.add_sequence(static_cast<std::uint32_t>(tokens.size()));
  truth out;
  for (std::size_t p = 0; p < tokens.size(); p += rows_per_pass) {
    const auto logits = run.run(run.rows(0, tokens, p, std::min(p + rows_per_pass, tokens.size())));
    out.logits.insert(out.logits.end(), logits.begin(), logits.end());
  }
  for (std::uint32_t p = 0; p < tokens.size(); ++p) out.cells.push_back(run.cell(0, p));
  return out;
}

} // namespace paceline::test
