#include "tests/gpu/kernels/split_attention_reference.hpp"

#include "gpu/kernels/split_attention_params.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/device/scalar_math.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::gpu {
namespace {

constexpr double unit = 0x1p-24; ///< of one rounding error
/// exp and tanh of the devices, relative: 1.1 and 1.4 units in the last place
/// (runtime/device/math_constants.hpp).
constexpr double of_exp = 2.2 * unit, of_tanh = 2.8 * unit;
/// Upper bound of an exponential that is treated as 0.
constexpr double vanished = 1.3e-38;

/// `n` successive roundings.
double roundings(double n) { return n * unit / (1 - n * unit); }

/// A position for one head: the stored values, without scales.
struct seen_cell {
  std::uint32_t position;
  std::vector<float> key, value;
  float key_scale = 1, value_scale = 1;
};

float stored(const void* values, kv_type type, std::size_t index) {
  switch (type) {
  case kv_type::f32:
    return static_cast<const float*>(values)[index];
  case kv_type::bf16:
    return device::float_of_bf16(static_cast<const device::bfloat16*>(values)[index].bits);
  case kv_type::q8:
    return static_cast<const std::int8_t*>(values)[index];
  case kv_type::f16:
    break;
  }
  return device::float_of_f16(static_cast<const std::uint16_t*>(values)[index]);
}

std::vector<seen_cell> cells_of(const device::attention_args& args, const device::batch_entry& row,
                                std::uint32_t kv_head) {
  const device::kv_layer& layer = args.layer;
  std::vector<seen_cell> cells;
  for (std::uint32_t j = first_visible(args, row.position); j <= row.position.value; ++j) {
    const kv_slot slot = slot_of(*args.batch, row, token_position{j});
    const block_id block = args.batch->sequences[row.sequence].blocks[slot.value / layer.block_size];
    const std::uint32_t cell = slot.value % layer.block_size;
    seen_cell& seen = cells.emplace_back();
    seen.position = j;
    for (std::uint32_t d = 0; d < layer.head_dim; ++d) {
      seen.key.push_back(stored(layer.keys, layer.type, layer.key_index(block, kv_head, cell, d)));
      seen.value.push_back(stored(layer.values, layer.type, layer.value_index(block, kv_head, cell, d)));
    }
    if (layer.type != kv_type::q8) continue;
    seen.key_scale = layer.key_scales[layer.scale_index(block, kv_head, cell)];
    seen.value_scale = layer.value_scales[layer.scale_index(block, kv_head, cell)];
  }
  return cells;
}

float score(const device::attention_args& args, const float* query, const seen_cell& cell) {
  float dot = 0;
  for (std::size_t d = 0; d < cell.key.size(); ++d) dot = std::fma(query[d], cell.key[d], dot);
  if (args.layer.type == kv_type::q8) dot = dot * cell.key_scale;
  dot = dot * args.scale;
  if (args.soft_cap != 0) dot = args.soft_cap * device::tanh_reference(dot * (1.0F / args.soft_cap));
  return dot;
}

/// A split, or all of them.
struct weighted_values {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;
  std::vector<float> acc;
};

weighted_values split_of(const device::attention_args& args, const float* query,
                         std::span<const seen_cell> cells) {
  weighted_values split;
  split.acc.assign(args.layer.head_dim, 0.0F);
  std::vector<float> scores;
  for (const seen_cell& cell : cells) {
    scores.push_back(score(args, query, cell));
    split.max = std::fmax(split.max, scores.back());
  }
  float lanes[32] = {};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const float probability = device::exp_reference(scores[i] - split.max);
    lanes[cells[i].position % 32] += probability;
    const float weight = args.layer.type == kv_type::q8 ? probability * cells[i].value_scale : probability;
    for (std::size_t d = 0; d < split.acc.size(); ++d)
      split.acc[d] = std::fma(weight, cells[i].value[d], split.acc[d]);
  }
  for (int half = 16; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
  split.sum = lanes[0];
  return split;
}

std::vector<float> by_contract(const device::attention_args& args, const float* query,
                               std::span<const seen_cell> cells) {
  std::vector<weighted_values> splits;
  for (std::size_t begin = 0; begin < cells.size();) {
    std::size_t end = begin;
    while (end < cells.size() && cells[end].position / kv_split == cells[begin].position / kv_split) ++end;
    splits.push_back(split_of(args, query, cells.subspan(begin, end - begin)));
    begin = end;
  }
  weighted_values total;
  for (const weighted_values& split : splits) total.max = std::fmax(total.max, split.max);
  total.acc.assign(args.layer.head_dim, 0.0F);
  for (const weighted_values& split : splits) {
    const float weight = device::exp_reference(split.max - total.max);
    total.sum = std::fma(split.sum, weight, total.sum);
    for (std::size_t d = 0; d < total.acc.size(); ++d)
      total.acc[d] = std::fma(split.acc[d], weight, total.acc[d]);
  }
  for (float& value : total.acc) value = value / total.sum;
  return total.acc;
}

/// A score in double precision, and the error bound of the contract's score.
struct exact_score {
  double value;
  double error;
};

/// The error is a chain of head_dim roundings, each of at most the sum of the terms' magnitudes, and up to
/// two scales. A cap adds the rounding of its inverse, of the product and of tanh, whose slope is at most 1,
/// and one more.
exact_score score_of(const device::attention_args& args, const float* query, const seen_cell& cell) {
  double dot = 0, terms = 0;
  for (std::size_t d = 0; d < cell.key.size(); ++d) {
    const double term = double{query[d]} * cell.key[d];
    dot += term, terms += std::fabs(term);
  }
  const double scale = double{cell.key_scale} * args.scale;
  exact_score out{dot * scale,
                  std::fabs(scale) * terms * roundings(static_cast<double>(cell.key.size()) + 2)};
  if (args.soft_cap != 0) {
    const double cap = args.soft_cap,
                 of_argument = out.error + (std::fabs(out.value) + out.error) * roundings(2);
    out.value = cap * std::tanh(out.value / cap);
    out.error = of_argument + (std::fabs(out.value) + of_argument) * (of_tanh + roundings(1)) * 1.001;
  }
  return out;
}

/// out = N / L, where N and L are sums over positions of weights exp(s - max s), in N times values. The
/// relative error of a weight has three parts: that of its score, that of the two differences that lead from
/// it to the largest score (together the whole distance), and that of two exponentials. A term also has the
/// errors of the chains that contain it.
void add_exact(const device::attention_args& args, const float* query, std::span<const seen_cell> cells,
               attended_head& out) {
  std::vector<exact_score> scores;
  double max = -std::numeric_limits<double>::infinity(), worst = 0;
  for (const seen_cell& cell : cells) {
    scores.push_back(score_of(args, query, cell));
    max = std::max(max, scores.back().value);
    worst = std::max(worst, scores.back().error);
  }
  const double num_splits = cells.back().position / kv_split - cells.front().position / kv_split + 1;
  const double of_values = roundings(kv_split + num_splits + 1), of_sum = roundings(4 + 5 + num_splits);
  double sum = 0, sum_error = 0;
  std::vector<double> values(args.layer.head_dim), errors(values.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const double weight = std::exp(scores[i].value - max);
    const double distance = max - scores[i].value + 2 * worst;
    const double of_weight = std::expm1(scores[i].error + unit * distance) + 2.01 * of_exp;
    sum += weight;
    sum_error += weight * (of_weight + of_sum * (1 + of_weight)) * 1.001 + vanished;
    for (std::size_t d = 0; d < values.size(); ++d) {
      const double value = double{cells[i].value[d]} * cells[i].value_scale;
      values[d] += weight * value;
      errors[d] +=
          (weight * (of_weight + of_values * (1 + of_weight)) * 1.001 + vanished) * std::fabs(value) +
          vanished;
    }
  }
  for (std::size_t d = 0; d < values.size(); ++d) {
    const double exact = values[d] / sum;
    const double error = (errors[d] + std::fabs(exact) * sum_error) / (sum - sum_error);
    out.exact.push_back(exact);
    out.bounds.push_back(error + (std::fabs(exact) + error) * unit);
  }
}

} // namespace

attended_head split_attention_reference(const device::attention_args& args, std::uint32_t row,
                                        std::uint32_t head) {
  const float* const query = args.queries + row * args.query_stride + std::size_t{head} * args.layer.head_dim;
  const auto cells = cells_of(args, args.batch->rows[row], head / (args.num_heads / args.layer.num_heads));
  attended_head out;
  out.out = by_contract(args, query, cells);
  add_exact(args, query, cells, out);
  return out;
}

} // namespace paceline::gpu
