#pragma once

#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/streamed_params.hpp"

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// Runs the intrinsics, for the test that compares their models with a GPU.
PACELINE_KERNEL probe_intrinsics(probe_params p) {
  const std::uint32_t lane = lane_index();
  std::byte* const shared = shared_memory<std::byte>();
  begin_copy(shared + lane * 16, p.copied + lane * 16);
  end_copy_group();
  begin_copy(shared + 512 + lane * 16, p.copied + 512 + lane * 16);
  end_copy_group();
  std::uint32_t a[4];
  float c[4];
  for (std::uint32_t i = 0; i < 4; ++i) a[i] = p.a[lane * 4 + i], c[i] = p.c[lane * 4 + i];
  p.halves[lane] = subtract_halves(halves_of(c[0], c[1]), a[0]);
  p.widened[lane] = float_of_half(a[0]);
  p.half_products[lane] = multiply_halves(a[0], a[1]);
  p.doubled[lane] = both_halves<0>(a[0]) ^ (both_halves<1>(a[1]) * 3);
  multiply_add_tile(c, a, p.b[lane * 2], p.b[lane * 2 + 1]);
  for (std::uint32_t i = 0; i < 4; ++i) p.products[lane * 4 + i] = c[i];
  const std::uint32_t other = (lane + 1) % warp_size; // the lane whose copies this lane reads
  wait_for_copies<1>();
  sync_warp();
  *reinterpret_cast<quad*>(p.arrived + lane * 16) = read_quad(shared + other * 16);
  wait_for_copies<0>();
  sync_warp();
  *reinterpret_cast<quad*>(p.arrived + 512 + lane * 16) = read_quad(shared + 512 + other * 16);
}

/// A kernel for the tests of early starts.
PACELINE_KERNEL probe_turns(probe_turns_params p) {
  let_next_begin();
  const std::uint32_t i = own_place().index_in_row();
  const bool has_value = i < p.num_values;
  std::byte* const copied = shared_memory<std::byte>() + thread_index() * 16;
  const auto copy = [&] { begin_copy(copied, reinterpret_cast<const std::byte*>(p.from + i * 4)); };
  float value = 0;
  if (has_value && p.how == probe_turn::reads_early) value = p.from[i * 4];
  if (has_value && p.how == probe_turn::copies_early) copy();
  if (has_value && p.how == probe_turn::writes_early) p.to[i * 4] = -1;
  if (p.how != probe_turn::none_in_turn && (has_value || p.how != probe_turn::some_in_turn))
    wait_for_previous();
  if (!has_value) return;
  if (p.how != probe_turn::copies_early) copy();
  end_copy_group();
  wait_for_copies<0>();
  if (p.how != probe_turn::reads_early) value = reinterpret_cast<const float*>(copied)[0];
  p.to[i * 4] = value + 1;
}

/// Each thread has several reads in flight; adjacent threads read adjacent addresses.
PACELINE_KERNEL read_memory(read_memory_params p) {
  begin_in_turn();
  constexpr std::uint32_t ahead = 8;
  const std::size_t thread = std::size_t{block_x()} * num_threads() + thread_index();
  const std::size_t stride = std::size_t{p.num_blocks} * num_threads();
  quad sums{};
  std::size_t i = thread;
  for (; i + (ahead - 1) * stride < p.num_reads; i += ahead * stride) {
    quad read[ahead];
    PACELINE_UNROLL
    for (std::uint32_t k = 0; k < ahead; ++k)
      read[k] = read_quad(p.from + (i + k * stride) * probe_read_bytes);
    PACELINE_UNROLL
    for (std::uint32_t k = 0; k < ahead; ++k)
      for (std::uint32_t w = 0; w < 4; ++w) sums.words[w] ^= read[k].words[w];
  }
  for (; i < p.num_reads; i += stride) {
    const quad read = read_quad(p.from + i * probe_read_bytes);
    for (std::uint32_t w = 0; w < 4; ++w) sums.words[w] ^= read.words[w];
  }
  for (std::uint32_t w = 0; w < 4; ++w) p.words[thread * 4 + w] = sums.words[w];
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
