#pragma once

#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/streamed_params.hpp"

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// Each intrinsic once, for the test that compares their models with a GPU.
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
  multiply_add_tile(c, a, p.b[lane * 2], p.b[lane * 2 + 1]);
  for (std::uint32_t i = 0; i < 4; ++i) p.products[lane * 4 + i] = c[i];
  const std::uint32_t other = (lane + 1) % warp_size; // who asked for what this lane reads
  wait_for_copies<1>();
  sync_warp();
  *reinterpret_cast<quad*>(p.arrived + lane * 16) = read_quad(shared + other * 16);
  wait_for_copies<0>();
  sync_warp();
  *reinterpret_cast<quad*>(p.arrived + 512 + lane * 16) = read_quad(shared + 512 + other * 16);
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
