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

/// The stream of a strip's weights through the warp's shared memory: slots for headers, then slots for tiles.
template <tensor_type Type>
struct strip_stream {
  static constexpr streamed_layout layout = streamed_layout_of(Type);
  static constexpr std::uint32_t header_slots = layout.header_slots();
  const std::byte* strip;
  std::byte* slots;

  /// Header of the span that contains the tile.
  PACELINE_DEVICE std::byte* header(tile_place at) const {
    const std::uint32_t slot =
        layout.tiles_of_span == 1 ? at.slot : at.tile / layout.tiles_of_span % header_slots;
    return slots + slot * layout.header_bytes;
  }
  PACELINE_DEVICE std::byte* codes(tile_place at) const {
    return slots + header_slots * layout.header_bytes + at.slot * layout.tile_bytes();
  }
  /// Begins to copy the tile and, with the first tile of a span, the span's header.
  PACELINE_DEVICE void fetch(tile_place at) const {
    const std::uint32_t in_span = at.tile % layout.tiles_of_span;
    const std::byte* const span = strip + at.tile / layout.tiles_of_span * layout.span_bytes();
    copy<layout.tile_bytes()>(codes(at), span + layout.header_bytes + in_span * layout.tile_bytes());
    if constexpr (layout.header_bytes != 0)
      if (in_span == 0) copy<layout.header_bytes>(header(at), span);
  }

 private:
  /// Done by a warp, 16 bytes a lane at a time.
  template <std::uint32_t NumBytes>
  PACELINE_DEVICE static void copy(std::byte* to, const std::byte* from) {
    constexpr std::uint32_t at_a_time = warp_size * 16;
    const std::uint32_t own = lane_index() * 16;
    PACELINE_UNROLL
    for (std::uint32_t at = 0; at < NumBytes; at += at_a_time)
      if (at + at_a_time <= NumBytes || own < NumBytes - at) begin_copy(to + at + own, from + at + own);
  }
};

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
