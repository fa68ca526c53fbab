#pragma once

#include "gpu/kernels/params.hpp"

namespace paceline::gpu {

/// Threads of a block that packs: four tiles, a lane each for each lane that will read.
inline constexpr std::uint32_t pack_threads = 128;

/// Rows as in a file to whole strips. One thread a lane of a tile; grid (tiles of a strip * 32, strips).
struct pack_weights_params {
  weight_rows from; ///< the rows of the strips at hand
  std::byte* to;    ///< the first of their strips
  std::size_t strip_bytes;
  std::uint32_t num_tiles; ///< of a strip
};

/// Powers of two that bring rows into float16's range. One warp a row; grid (1, rows of the strips at hand).
struct scale_weight_rows_params {
  weight_rows from;
  float* multipliers; ///< of the first row
};

/// Activations of up to 64 rows as the operand B of mma.m16n8k16: for each unit of 32 columns and each tile
/// of 8 rows 16 bytes a lane. Lane 4 r + t has of row r the columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of the
/// unit's first 16 columns, then of its second.
struct arranged_rows {
  std::byte* halves = nullptr; ///< [num_units][num_tiles][32][16]
  float* scales = nullptr;     ///< [8 * num_tiles]: a row is its halves times this, a power of two
  float* sums = nullptr;       ///< [num_units][8 * num_tiles], of the halves
  /// Those sums as operand B, for each span of 8 units and each tile of 8 rows 8 bytes a lane: of units 2 t
  /// and 2 t + 1 of row r of the tile, times `sum_multiplier`, the float16 nearest to them, and nearest to
  /// 2^11 times what is missing.
  std::byte* sum_halves = nullptr; ///< [num_units / 8][num_tiles][32][8]
  std::uint32_t num_units = 0;     ///< whole units of `split_cols`, zeros behind the last column
  std::uint32_t num_tiles = 0;     ///< 1, 2, 4 or 8; behind the last row anything: products of it are dropped
};

inline constexpr std::uint32_t unit_cols = 32;
inline constexpr std::uint32_t units_of_span = 8;
inline constexpr float sum_multiplier = 0x1p-5F; ///< brings sums of 32 into float16's range
inline constexpr std::uint32_t token_tile = 8;
inline constexpr std::uint32_t streamed_rows = 64; ///< of x that weights are read for at a time
inline constexpr std::uint32_t arrange_threads = 128;
/// Shared memory of a block that looks for a row's largest value.
inline constexpr std::uint32_t arrange_shared_bytes = arrange_threads / 32 * sizeof(std::uint32_t);

/// Rows as they are, or by the norm `norm` (runtime/device/op_rms_norm.hpp). One thread a lane's 16 bytes,
/// four a unit of a row; grid (4 * units / arrange_threads, rows).
struct arrange_rows_params {
  const float* x;
  std::size_t x_stride;
  std::uint32_t num_rows;
  std::uint32_t num_cols;
  const float* norm; ///< [num_cols], or null
  float epsilon;
  arranged_rows out;
};

/// Warps of a block of the streamed products, and strips a warp.
inline constexpr std::uint32_t stream_warps = 4;
inline constexpr std::uint32_t stream_strips = 2;

/// One product for up to 64 rows of x: a warp two strips; grid (strips / 8, splits). Or a gated one
/// (runtime/device/op_gated_matmul.hpp): a warp one strip of the gate and the same of `up`; grid (strips / 4,
/// splits).
struct streamed_params {
  streamed_weights weights;
  streamed_weights up; ///< as `weights` in type and shape; without bytes, if nothing is gated
  device::activation act;
  arranged_rows x;
  std::uint32_t num_rows;       ///< of x
  std::uint32_t num_tiles;      ///< of a strip
  std::uint32_t tiles_of_split; ///< which a block multiplies with
  std::uint32_t num_splits;
  float*
      partial; ///< [num_splits][num_rows][weights.num_rows], for others to add up; behind them those of `up`
  float* y;    ///< if that is null
  std::size_t y_stride;
  const float* bias; ///< may be null
  bool add;
};

/// Sums of the splits, gated or not. One thread an output; grid (outputs, rows).
struct add_splits_params {
  const float* partial;
  const float* partial_up; ///< null: nothing is gated
  device::activation act;
  std::uint32_t num_splits;
  std::uint32_t num_rows;
  std::uint32_t num_outputs;
  float* y;
  std::size_t y_stride;
  const float* bias;
  bool add;
};

/// Products that are to be queries, keys or values, as their splits left them.
struct head_products {
  const float* partial; ///< [num_splits][num_rows][num_heads * head_dim]
  std::uint32_t num_splits;
  std::uint32_t num_heads;
  const float* bias; ///< may be null
  const float* norm; ///< [head_dim], may be null
};

/// Heads of a row that a block of finish_heads works on, a warp each.
inline constexpr std::uint32_t heads_of_block = 4;

/// Queries, keys and values from their products, the last two in their cells. One warp a head of a row; grid
/// (heads of all three / heads_of_block, rows). Shared memory: [heads_of_block][head_dim].
struct finish_heads_params {
  batch_view batch; ///< of the rows at hand, as are `table` and `out`
  device::kv_layer layer;
  head_products q, k, v;
  const float* table; ///< [num_rows][2 * num_pairs]
  std::uint32_t num_pairs;
  device::rope_layout layout;
  float epsilon;
  std::uint32_t num_rows;
  float* out; ///< queries
  std::size_t out_stride;
};

/// What the tests ask of the intrinsics; one warp.
struct probe_params {
  const std::uint32_t* a;       ///< [32][4] registers of lanes
  const std::uint32_t* b;       ///< [32][2]
  const float* c;               ///< [32][4]
  float* products;              ///< [32][4]
  const std::byte* copied;      ///< [2][32][16], brought to shared memory and written to
  std::byte* arrived;           ///< [2][32][16], by lanes that did not ask for them
  std::uint32_t* halves;        ///< [32]: pairs of float16 of c[l][0], c[l][1], less the pair a[l][0]
  float* widened;               ///< [32]: the lower half of a[l][0]
  std::uint32_t* half_products; ///< [32]: the pair a[l][0] times the pair a[l][1]
  std::uint32_t*
      doubled; ///< [32]: the lower half of a[l][0] in both, xor three times the upper one of a[l][1]
};

/// How a thread of probe_turns goes about it: as kernels must, and as they must not.
enum class probe_turn : std::uint8_t {
  in_turn,
  reads_early,  ///< before it waits
  copies_early, ///< begins to copy to shared memory before it waits
  writes_early, ///< something else, before it waits
  some_in_turn, ///< threads without a value return without waiting
  none_in_turn, ///< nobody waits
};

/// What the tests of kernels that start early launch: to[i] = from[i] + 1, a thread a value. 16 bytes of
/// shared memory a thread; of `from` four times as many values, of which those at multiples of 4 count.
struct probe_turns_params {
  const float* from; ///< [num_values][4]
  float* to;         ///< [num_values][4]
  std::uint32_t num_values;
  probe_turn how;
};

/// Bytes that a thread of read_memory reads at once.
inline constexpr std::uint32_t probe_read_bytes = 16;

/// Reads memory, for the rate at which that is possible.
struct read_memory_params {
  const std::byte* from; ///< at a multiple of `probe_read_bytes`
  std::size_t num_reads; ///< of all threads together
  std::uint32_t num_blocks;
  std::uint32_t* words; ///< [num_blocks * threads of a block][4]: what the thread read, one xor the other
};

} // namespace paceline::gpu
