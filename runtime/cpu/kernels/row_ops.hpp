#pragma once

// Norm, rope, GLU and the writing of keys and values over vectors of 16 lanes; V is a simd_* of this folder.
// The lane of a value is its index mod 16, as in the reference.
#include "runtime/cpu/kernels/kv_element.hpp"
#include "runtime/cpu/kernels/math.hpp"
#include "runtime/cpu/row_kernels.hpp"

namespace paceline::cpu {
namespace {

template <class V>
void rms_norm_part(const device::rms_norm_args& args, const float* x, float* y) {
  const std::uint32_t whole = args.width / V::lanes * V::lanes;
  const std::uint32_t rest = args.width - whole;
  auto sum = V::zero();
  for (std::uint32_t i = 0; i < whole; i += V::lanes) {
    const auto v = V::load(x + i);
    sum = V::fma(v, v, sum);
  }
  if (rest != 0) {
    const auto v = V::load_partial(x + whole, rest);
    sum = V::fma(v, v, sum);
  }
  const float mean = V::reduce_add(sum) / static_cast<float>(args.width);
  const auto scale = V::set1(1.0F / __builtin_sqrtf(mean + args.epsilon));
  for (std::uint32_t i = 0; i < whole; i += V::lanes)
    V::store(y + i, V::mul(V::mul(V::load(x + i), scale), V::load(args.weight + i)));
  if (rest != 0) {
    const auto weight = V::load_partial(args.weight + whole, rest);
    V::store_partial(y + whole, V::mul(V::mul(V::load_partial(x + whole, rest), scale), weight), rest);
  }
}

template <class V>
void rms_norm(const device::rms_norm_args& args, row_range rows) {
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    for (std::uint32_t part = 0; part < args.num_parts; ++part) {
      const std::size_t offset = std::size_t{part} * args.width;
      rms_norm_part<V>(args, args.x + r * args.x_stride + offset, args.y + r * args.y_stride + offset);
    }
  }
}

/// Rotates one pair of vectors (a, b) by (cosine, sine).
template <class V>
void rotate(typename V::vec& a, typename V::vec& b, typename V::vec cosine, typename V::vec sine) {
  const auto minus_b_sine = V::bits_xor(V::mul(b, sine), V::set1(-0.0F));
  const auto a_sine = V::mul(a, sine);
  a = V::fma(a, cosine, minus_b_sine);
  b = V::fma(b, cosine, a_sine);
}

template <class V>
void rope_half_split(float* x, const float* table, std::uint32_t num_pairs) {
  std::uint32_t i = 0;
  for (; i + V::lanes <= num_pairs; i += V::lanes) {
    auto a = V::load(x + i);
    auto b = V::load(x + num_pairs + i);
    rotate<V>(a, b, V::load(table + i), V::load(table + num_pairs + i));
    V::store(x + i, a);
    V::store(x + num_pairs + i, b);
  }
  if (const std::uint32_t rest = num_pairs - i; rest != 0) {
    auto a = V::load_partial(x + i, rest);
    auto b = V::load_partial(x + num_pairs + i, rest);
    rotate<V>(a, b, V::load_partial(table + i, rest), V::load_partial(table + num_pairs + i, rest));
    V::store_partial(x + i, a, rest);
    V::store_partial(x + num_pairs + i, b, rest);
  }
}

template <class V>
void rope_interleaved(float* x, const float* table, std::uint32_t num_pairs) {
  typename V::vec a, b, first, second;
  std::uint32_t i = 0;
  for (; i + V::lanes <= num_pairs; i += V::lanes) {
    V::deinterleave(V::load(x + 2 * i), V::load(x + 2 * i + V::lanes), a, b);
    rotate<V>(a, b, V::load(table + i), V::load(table + num_pairs + i));
    V::interleave(a, b, first, second);
    V::store(x + 2 * i, first);
    V::store(x + 2 * i + V::lanes, second);
  }
  if (const std::uint32_t rest = num_pairs - i; rest != 0) {
    float padded[2 * V::lanes] = {};
    __builtin_memcpy(padded, x + 2 * i, 2 * rest * sizeof(float));
    V::deinterleave(V::load(padded), V::load(padded + V::lanes), a, b);
    rotate<V>(a, b, V::load_partial(table + i, rest), V::load_partial(table + num_pairs + i, rest));
    V::interleave(a, b, first, second);
    V::store(padded, first);
    V::store(padded + V::lanes, second);
    __builtin_memcpy(x + 2 * i, padded, 2 * rest * sizeof(float));
  }
}

template <class V>
void rope(const device::rope_args& args, row_range rows) {
  const bool half_split = args.layout == device::rope_layout::half_split;
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    const float* table = args.table + std::size_t{r} * 2 * args.num_pairs;
    for (std::uint32_t h = 0; h < args.num_heads; ++h) {
      float* x = args.x + r * args.stride + std::size_t{h} * args.head_dim;
      if (half_split)
        rope_half_split<V>(x, table, args.num_pairs);
      else
        rope_interleaved<V>(x, table, args.num_pairs);
    }
  }
}

template <class V>
typename V::vec gelu_erf(typename V::vec x) {
  using c = device::gelu_constants;
  const auto one = V::set1(1.0F), sign = V::set1(-0.0F);
  const auto z = V::mul(V::bits_xor(x, V::bits_and(x, sign)), V::set1(c::root_half));
  const auto t = V::div(one, V::fma(V::set1(c::scale), z, one));
  auto p = V::set1(c::e[4]);
  for (int i = 3; i >= 0; --i) p = V::fma(p, t, V::set1(c::e[i]));
  const auto q = V::mul(V::mul(V::mul(p, t), exp<V>(V::bits_xor(V::mul(z, z), sign))), V::set1(0.5F));
  return V::mul(x, V::select_less(x, V::zero(), q, V::sub(one, q)));
}

template <class V>
typename V::vec activate(device::activation act, typename V::vec x) {
  if (act == device::activation::gelu_erf) return gelu_erf<V>(x);
  if (act == device::activation::relu) return V::select_less(x, V::zero(), V::zero(), x);
  if (act == device::activation::tanh) return tanh<V>(x);
  const auto one = V::set1(1.0F);
  if (act == device::activation::sigmoid_of_minus) return V::div(one, V::add(one, exp<V>(x)));
  if (act == device::activation::sigmoid)
    return V::div(one, V::add(one, exp<V>(V::bits_xor(x, V::set1(-0.0F)))));
  auto u = x;
  if (act == device::activation::gelu_tanh) {
    using c = device::gelu_constants;
    const auto outer = V::mul(x, V::set1(c::twice_root_two_over_pi));
    u = V::mul(outer, V::fma(V::set1(c::cubic), V::mul(x, x), one));
  }
  return V::div(x, V::add(one, exp<V>(V::bits_xor(u, V::set1(-0.0F)))));
}

template <class V>
void activate_rows(const device::glu_args& args, row_range rows) {
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    const float* x = args.gate + r * args.stride;
    float* out = args.out + r * args.out_stride;
    std::uint32_t i = 0;
    for (; i + V::lanes <= args.width; i += V::lanes)
      V::store(out + i, activate<V>(args.act, V::load(x + i)));
    if (const std::uint32_t rest = args.width - i; rest != 0)
      V::store_partial(out + i, activate<V>(args.act, V::load_partial(x + i, rest)), rest);
  }
}

template <class V>
void glu(const device::glu_args& args, row_range rows) {
  if (args.up == nullptr) return activate_rows<V>(args, rows);
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    const float* gate = args.gate + r * args.stride;
    const float* up = args.up + r * args.stride;
    float* out = args.out + r * args.out_stride;
    std::uint32_t i = 0;
    for (; i + V::lanes <= args.width; i += V::lanes)
      V::store(out + i, V::mul(activate<V>(args.act, V::load(gate + i)), V::load(up + i)));
    if (const std::uint32_t rest = args.width - i; rest != 0) {
      const auto active = activate<V>(args.act, V::load_partial(gate + i, rest));
      V::store_partial(out + i, V::mul(active, V::load_partial(up + i, rest)), rest);
    }
  }
}

/// Writes `width` values, rounded to T, to `to`.
template <class V, class T>
void convert(const float* from, T* to, std::uint32_t width) {
  std::uint32_t i = 0;
  for (; i + V::lanes <= width; i += V::lanes) V::store(to + i, V::load(from + i));
  if (const std::uint32_t rest = width - i; rest != 0)
    V::store_partial(to + i, V::load_partial(from + i, rest), rest);
}

/// The scale of a q8 head, and the factor that turns its values into codes; op_kv.hpp.
struct head_scale {
  float scale;
  float inverse; ///< 0: all codes are 0
};

template <class V>
head_scale head_scale_of(const float* x, std::uint32_t width) {
  auto largest = V::zero();
  auto probe = V::zero(); // NaN if a value is not finite
  const auto look = [&](typename V::vec v) {
    largest = V::max(V::bits_xor(v, V::bits_and(v, V::set1(-0.0F))), largest);
    probe = V::fma(v, V::zero(), probe);
  };
  std::uint32_t i = 0;
  for (; i + V::lanes <= width; i += V::lanes) look(V::load(x + i));
  if (const std::uint32_t rest = width - i; rest != 0) look(V::load_partial(x + i, rest));
  if (!(V::reduce_add(probe) == 0.0F)) return {__builtin_nanf(""), 0};
  const float a = V::reduce_max(largest);
  if (a < 0x1p-100F) return {0, 0};
  return {a / 127.0F, 127.0F / a};
}

/// Writes the q8 codes of one head and returns their scale.
template <class V>
float to_codes(const float* from, std::int8_t* to, std::uint32_t width) {
  const head_scale found = head_scale_of<V>(from, width);
  if (found.inverse == 0) {
    __builtin_memset(to, 0, width);
    return found.scale;
  }
  const auto inverse = V::set1(found.inverse);
  std::uint32_t i = 0;
  for (; i + V::lanes <= width; i += V::lanes) V::store(to + i, V::round(V::mul(V::load(from + i), inverse)));
  if (const std::uint32_t rest = width - i; rest != 0)
    V::store_partial(to + i, V::round(V::mul(V::load_partial(from + i, rest), inverse)), rest);
  return found.scale;
}

template <class V, class T>
void kv_write_as(const device::kv_write_args& args, row_range rows) {
  const device::kv_layer& layer = args.layer;
  auto* keys = static_cast<T*>(layer.keys);
  auto* values = static_cast<T*>(layer.values);
  T rounded[device::max_head_dim];
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    const device::batch_entry& row = args.batch->rows[r];
    const block_id block = args.batch->sequences[row.sequence].blocks[row.slot.value / layer.block_size];
    const std::uint32_t cell = row.slot.value % layer.block_size;
    for (std::uint32_t h = 0; h < layer.num_heads; ++h) {
      const std::size_t from = r * args.stride + std::size_t{h} * layer.head_dim;
      T* const value = values + layer.value_index(block, h, cell, 0);
      if constexpr (is_code<T>) {
        const std::size_t at = layer.scale_index(block, h, cell);
        layer.value_scales[at] = to_codes<V>(args.values + from, value, layer.head_dim);
        layer.key_scales[at] = to_codes<V>(args.keys + from, rounded, layer.head_dim);
      } else {
        convert<V>(args.values + from, value, layer.head_dim);
        convert<V>(args.keys + from, rounded, layer.head_dim);
      }
      T* key = keys + layer.key_index(block, h, cell, 0);
      for (std::uint32_t d = 0; d < layer.head_dim; ++d) key[std::size_t{d} * layer.block_size] = rounded[d];
    }
  }
}

template <class V>
void kv_write(const device::kv_write_args& args, row_range rows) {
  with_element(args.layer.type, [&](auto element) { kv_write_as<V, decltype(element)>(args, rows); });
}

} // namespace
} // namespace paceline::cpu
