// The definition of the ops that work on each row separately: plain loops, with roundings exactly where the
// contracts (runtime/device/op_*.hpp) name them. Every faster level is tested to give the same bits.
#include "runtime/cpu/row_kernels.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/device/scalar_math.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

namespace paceline::cpu {
namespace {

using device::activation;
using device::exp_reference;
using device::tanh_reference;

constexpr std::uint32_t lanes = 16;

float add_lanes(std::array<float, lanes> lane) {
  for (std::uint32_t half = lanes / 2; half > 0; half /= 2)
    for (std::uint32_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

void rms_norm(const device::rms_norm_args& args, row_range rows) {
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    for (std::uint32_t part = 0; part < args.num_parts; ++part) {
      const float* x = args.x + r * args.x_stride + std::size_t{part} * args.width;
      float* y = args.y + r * args.y_stride + std::size_t{part} * args.width;
      std::array<float, lanes> sum{};
      for (std::uint32_t i = 0; i < args.width; ++i) sum[i % lanes] = std::fma(x[i], x[i], sum[i % lanes]);
      const float mean = add_lanes(sum) / static_cast<float>(args.width);
      const float scale = 1.0F / std::sqrt(mean + args.epsilon);
      for (std::uint32_t i = 0; i < args.width; ++i) y[i] = (x[i] * scale) * args.weight[i];
    }
  }
}

void rope(const device::rope_args& args, row_range rows) {
  const bool half_split = args.layout == device::rope_layout::half_split;
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    const float* cosines = args.table + std::size_t{r} * 2 * args.num_pairs;
    const float* sines = cosines + args.num_pairs;
    for (std::uint32_t h = 0; h < args.num_heads; ++h) {
      float* x = args.x + r * args.stride + std::size_t{h} * args.head_dim;
      for (std::uint32_t i = 0; i < args.num_pairs; ++i) {
        float& first = x[half_split ? i : 2 * i];
        float& second = x[half_split ? i + args.num_pairs : 2 * i + 1];
        const float a = first;
        const float b = second;
        first = std::fma(a, cosines[i], -(b * sines[i]));
        second = std::fma(b, cosines[i], a * sines[i]);
      }
    }
  }
}

float activate(activation act, float x) {
  if (act == activation::silu) return x / (1.0F + exp_reference(-x));
  if (act == activation::sigmoid) return 1.0F / (1.0F + exp_reference(-x));
  if (act == activation::relu) return x < 0.0F ? 0.0F : x;
  if (act == activation::tanh) return device::tanh_reference(x);
  if (act == activation::sigmoid_of_minus) return 1.0F / (1.0F + exp_reference(x));
  if (act == activation::gelu_erf) return device::gelu_erf_reference(x);
  using c = device::gelu_constants;
  const float u = (x * c::twice_root_two_over_pi) * std::fma(c::cubic, x * x, 1.0F);
  return x / (1.0F + exp_reference(-u));
}

void glu(const device::glu_args& args, row_range rows) {
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    const float* gate = args.gate + r * args.stride;
    const float* up = args.up != nullptr ? args.up + r * args.stride : nullptr;
    float* out = args.out + r * args.out_stride;
    for (std::uint32_t i = 0; i < args.width; ++i) {
      const float active = activate(args.act, gate[i]);
      out[i] = args.up != nullptr ? active * up[i] : active;
    }
  }
}

/// Value `index` of an array of the pool. For a q8 pool this is the code.
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

void store(void* values, kv_type type, std::size_t index, float value) {
  switch (type) {
  case kv_type::f32:
    static_cast<float*>(values)[index] = value;
    return;
  case kv_type::bf16:
    static_cast<device::bfloat16*>(values)[index] = {device::bf16_of_float(value)};
    return;
  case kv_type::q8:
    static_cast<std::int8_t*>(values)[index] = static_cast<std::int8_t>(value);
    return;
  case kv_type::f16:
    break;
  }
  static_cast<std::uint16_t*>(values)[index] = device::f16_of_float(value);
}

/// Converts the values of one head to the codes of a q8 pool, and returns their scale.
float to_codes(std::span<float> values) {
  float largest = 0;
  bool finite = true;
  for (const float x : values) {
    finite = finite && std::isfinite(x);
    largest = std::max(largest, std::fabs(x));
  }
  const bool usable = finite && largest >= 0x1p-100F;
  for (float& x : values) x = usable ? std::nearbyint(x * (127.0F / largest)) : 0.0F;
  if (!finite) return std::bit_cast<float>(0x7fc00000U);
  return usable ? largest / 127.0F : 0.0F;
}

void kv_write(const device::kv_write_args& args, row_range rows) {
  const device::kv_layer& layer = args.layer;
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    const device::batch_entry& row = args.batch->rows[r];
    const auto blocks = args.batch->sequences[row.sequence].blocks;
    const block_id block = blocks[row.slot.value / layer.block_size];
    const std::uint32_t cell = row.slot.value % layer.block_size;
    for (std::uint32_t h = 0; h < layer.num_heads; ++h) {
      const std::size_t from = r * args.stride + std::size_t{h} * layer.head_dim;
      std::vector<float> key(args.keys + from, args.keys + from + layer.head_dim);
      std::vector<float> value(args.values + from, args.values + from + layer.head_dim);
      if (layer.type == kv_type::q8) {
        layer.key_scales[layer.scale_index(block, h, cell)] = to_codes(key);
        layer.value_scales[layer.scale_index(block, h, cell)] = to_codes(value);
      }
      for (std::uint32_t d = 0; d < layer.head_dim; ++d) {
        store(layer.keys, layer.type, layer.key_index(block, h, cell, d), key[d]);
        store(layer.values, layer.type, layer.value_index(block, h, cell, d), value[d]);
      }
    }
  }
}

/// The result of one split of one row and head, or of several merged ones.
struct partial_attention {
  float max = 0;
  float sum = 0;
  std::vector<float> acc;
};

class head_attention {
 public:
  head_attention(const device::attention_args& args, std::uint32_t row, std::uint32_t head)
      : args_(args), row_(args.batch->rows[row]),
        query_(args.queries + row * args.query_stride + std::size_t{head} * args.layer.head_dim),
        kv_head_(head / (args.num_heads / args.layer.num_heads)) {}

  float score(std::uint32_t position) const {
    const device::kv_layer& layer = args_.layer;
    const auto [block, cell] = cell_of(position);
    float dot = 0;
    for (std::uint32_t d = 0; d < layer.head_dim; ++d)
      dot =
          std::fma(query_[d], stored(layer.keys, layer.type, layer.key_index(block, kv_head_, cell, d)), dot);
    if (layer.type == kv_type::q8) dot = dot * layer.key_scales[layer.scale_index(block, kv_head_, cell)];
    dot = dot * args_.scale;
    if (args_.soft_cap != 0) dot = args_.soft_cap * tanh_reference(dot * (1.0F / args_.soft_cap));
    return dot;
  }

  /// Positions [begin, end), all in one split.
  partial_attention split(std::uint32_t begin, std::uint32_t end) const {
    const device::kv_layer& layer = args_.layer;
    std::vector<float> weights;
    for (std::uint32_t j = begin; j < end; ++j) weights.push_back(score(j));
    partial_attention part{weights[0], 0, std::vector<float>(layer.head_dim, 0.0F)};
    for (float w : weights) part.max = std::max(part.max, w);
    std::array<float, lanes> sum{};
    for (std::uint32_t j = begin; j < end; ++j) {
      float& weight = weights[j - begin];
      weight = exp_reference(weight - part.max);
      sum[j % lanes] += weight;
      const auto [block, cell] = cell_of(j);
      if (layer.type == kv_type::q8) weight *= layer.value_scales[layer.scale_index(block, kv_head_, cell)];
      for (std::uint32_t d = 0; d < layer.head_dim; ++d) {
        const float value = stored(layer.values, layer.type, layer.value_index(block, kv_head_, cell, d));
        part.acc[d] = std::fma(weight, value, part.acc[d]);
      }
    }
    part.sum = add_lanes(sum);
    return part;
  }

 private:
  std::pair<block_id, std::uint32_t> cell_of(std::uint32_t position) const {
    const kv_slot slot = device::slot_of(*args_.batch, row_, token_position{position});
    const auto blocks = args_.batch->sequences[row_.sequence].blocks;
    return {blocks[slot.value / args_.layer.block_size], slot.value % args_.layer.block_size};
  }

  const device::attention_args& args_;
  const device::batch_entry& row_;
  const float* query_;
  std::uint32_t kv_head_;
};

void merge(partial_attention& into, const partial_attention& part) {
  const float max = std::max(into.max, part.max);
  const float a = exp_reference(into.max - max);
  const float b = exp_reference(part.max - max);
  into.sum = std::fma(into.sum, a, part.sum * b);
  for (std::size_t d = 0; d < into.acc.size(); ++d) into.acc[d] = std::fma(into.acc[d], a, part.acc[d] * b);
  into.max = max;
}

/// The merged splits of one query, added in order.
class merged_splits {
 public:
  void add(partial_attention part) {
    if (started_)
      merge(total_, part);
    else
      total_ = std::move(part);
    started_ = true;
  }
  void write(const device::attention_args& args, std::uint32_t row, std::uint32_t head) const {
    float* const out = args.out + row * args.out_stride + std::size_t{head} * args.layer.head_dim;
    for (std::uint32_t d = 0; d < args.layer.head_dim; ++d) out[d] = total_.acc[d] / total_.sum;
  }

 private:
  bool started_ = false;
  partial_attention total_;
};

/// The splits of which `row` sees a position.
row_range visible_splits(const device::attention_args& args, std::uint32_t row) {
  const token_position position = args.batch->rows[row].position;
  return {device::first_visible(args, position) / device::attention_split,
          position.value / device::attention_split + 1};
}

/// The part of split `s` that `row` sees.
partial_attention part_of(const device::attention_args& args, std::uint32_t row, std::uint32_t head,
                          std::uint32_t s) {
  const token_position position = args.batch->rows[row].position;
  const std::uint32_t begin = std::max(s * device::attention_split, device::first_visible(args, position));
  return head_attention(args, row, head)
      .split(begin, std::min((s + 1) * device::attention_split, position.value + 1));
}

void attention(const device::attention_args& args, const attention_unit& unit) {
  for (std::uint32_t r = unit.rows.begin; r < unit.rows.end; ++r) {
    const row_range visible = visible_splits(args, r);
    for (std::uint32_t h = unit.head_begin; h < unit.head_end; ++h) {
      merged_splits total;
      for (std::uint32_t s = visible.begin; s < visible.end; ++s) total.add(part_of(args, r, h, s));
      total.write(args, r, h);
    }
  }
}

void attention_splits(const device::attention_args& args, const attention_unit& unit, row_range splits,
                      const attention_parts& parts) {
  for (std::uint32_t r = unit.rows.begin; r < unit.rows.end; ++r) {
    const row_range visible = visible_splits(args, r);
    for (std::uint32_t h = unit.head_begin; h < unit.head_end; ++h) {
      for (std::uint32_t s = std::max(splits.begin, visible.begin); s < std::min(splits.end, visible.end);
           ++s) {
        const partial_attention part = part_of(args, r, h, s);
        const std::size_t at = parts.index(r, args.num_heads, h, s);
        parts.max[at] = part.max;
        parts.sum[at] = part.sum;
        std::copy(part.acc.begin(), part.acc.end(), parts.acc + at * parts.acc_stride);
      }
    }
  }
}

void merge_splits(const device::attention_args& args, row_range rows, const attention_parts& parts) {
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    const row_range visible = visible_splits(args, r);
    for (std::uint32_t h = 0; h < args.num_heads; ++h) {
      merged_splits total;
      for (std::uint32_t s = visible.begin; s < visible.end; ++s) {
        const std::size_t at = parts.index(r, args.num_heads, h, s);
        const float* const acc = parts.acc + at * parts.acc_stride;
        total.add({parts.max[at], parts.sum[at], {acc, acc + args.layer.head_dim}});
      }
      total.write(args, r, h);
    }
  }
}

/// The sum over a key's values of `factor` (of a value's index), as op_gated_delta.hpp adds it.
template <class Factor>
float delta_sum(const float* key, std::uint32_t key_dim, const Factor& factor) {
  float sum[4] = {};
  for (std::uint32_t i = 0; i < key_dim; ++i) sum[i % 4] = std::fma(key[i], factor(i), sum[i % 4]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void gated_delta(const device::gated_delta_args& args, const delta_unit& unit) {
  constexpr std::uint32_t columns = device::delta_columns;
  const device::delta_heads& heads = args.heads;
  const std::size_t group_values = std::size_t{heads.key_dim} * columns;
  const std::size_t in_slot = (std::size_t{unit.head} * heads.num_groups() + unit.group) * group_values;
  const float* newest = nullptr;
  for (const device::state_step& step : unit.steps) {
    const float* const q =
        args.x + step.row * args.stride + std::size_t{heads.key_of(unit.head)} * heads.key_dim;
    const float* const k = q + heads.keys_size();
    const float* const v = args.x + step.row * args.stride + 2 * heads.keys_size();
    const delta_factors factors = unit.factors[std::size_t{step.row} * heads.num_values + unit.head];
    if (step.from == device::state_step::zeros)
      newest = nullptr;
    else if (step.from != device::state_step::previous)
      newest = args.states.values + static_cast<std::size_t>(step.from) * args.states.slot_stride + in_slot;
    float* const to =
        step.to == device::state_step::nowhere
            ? unit.running
            : args.states.values + static_cast<std::size_t>(step.to) * args.states.slot_stride + in_slot;
    for (std::uint32_t c = 0; c < columns; ++c) {
      const std::uint32_t column = unit.group * columns + c;
      const std::size_t at = std::size_t{unit.head} * heads.value_dim + column;
      const auto kept = [&](std::uint32_t i) {
        return newest == nullptr ? 0.0F : newest[i * columns + c] * factors.decay;
      };
      const float value = column < heads.value_dim ? v[at] : 0.0F;
      const float change = factors.beta * (value - delta_sum(k, heads.key_dim, kept));
      for (std::uint32_t i = 0; i < heads.key_dim; ++i) to[i * columns + c] = std::fma(k[i], change, kept(i));
      const float out = delta_sum(q, heads.key_dim, [&](std::uint32_t i) { return to[i * columns + c]; });
      if (step.repeated == 0 && column < heads.value_dim)
        args.out[step.row * args.stride + at] = out * args.scale;
    }
    newest = to;
  }
}

} // namespace

const row_kernels& reference_row_kernels() noexcept {
  static constexpr row_kernels kernels{rms_norm,         rope,         glu,        kv_write, attention,
                                       attention_splits, merge_splits, gated_delta};
  return kernels;
}

} // namespace paceline::cpu
