#pragma once

#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/streamed_layout.hpp"

// Loads the weights of streamed products (gpu/kernels/streamed_matmul.cuh) for a warp.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

using device::tensor_type;

/// A tile of a strip, and its slot: tiles use the slots in turn.
struct tile_place {
  std::uint32_t tile;
  std::uint32_t slot;
};

/// The stream of a strip's weights through the warp's shared memory, which has slots for headers and then
/// slots for tiles. `EvictFirst`: copies have the policy `evict_first`.
template <tensor_type Type, bool EvictFirst>
struct strip_stream {
  static constexpr streamed_layout layout = streamed_layout_of(Type);
  static constexpr std::uint32_t header_slots = layout.header_slots();
  const std::byte* next; ///< the lane's next source
  std::byte* slots;      ///< of the warp
  std::uint64_t policy;  ///< if `EvictFirst`

  /// `first` is the first tile that will be fetched; a span must begin with it.
  PACELINE_DEVICE strip_stream(const std::byte* strip, std::byte* slots_of_warp, std::uint32_t first)
      : next(strip + first / layout.tiles_of_span * layout.span_bytes() + lane_index() * 16),
        slots(slots_of_warp), policy(EvictFirst ? evict_first() : 0) {}

  /// Header of the span that contains the tile.
  PACELINE_DEVICE std::byte* header(tile_place at) const {
    const std::uint32_t slot =
        layout.tiles_of_span == 1 ? at.slot : at.tile / layout.tiles_of_span % header_slots;
    return slots + slot * layout.header_bytes;
  }
  PACELINE_DEVICE std::byte* codes(tile_place at) const {
    return slots + header_slots * layout.header_bytes + at.slot * layout.tile_bytes();
  }
  /// Begins to copy the next tile and, before the first tile of a span, the span's header.
  PACELINE_DEVICE void fetch(tile_place at) {
    if constexpr (layout.header_bytes != 0)
      if (layout.tiles_of_span == 1 || at.tile % layout.tiles_of_span == 0)
        copy<layout.header_bytes>(header(at));
    copy<layout.tile_bytes()>(codes(at));
  }

 private:
  /// Begins to copy the next `NumBytes` bytes. Done by a warp: each lane copies 16 bytes at a time.
  template <std::uint32_t NumBytes>
  PACELINE_DEVICE void copy(std::byte* to) {
    constexpr std::uint32_t at_a_time = warp_size * 16;
    const std::uint32_t own = lane_index() * 16;
    PACELINE_UNROLL
    for (std::uint32_t at = 0; at < NumBytes; at += at_a_time)
      if (at + at_a_time <= NumBytes || own < NumBytes - at) {
        if constexpr (EvictFirst)
          begin_copy(to + at + own, next + at, policy);
        else
          begin_copy(to + at + own, next + at);
      }
    next += NumBytes;
  }
};

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
