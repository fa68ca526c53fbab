#pragma once

#include "gpu/kernels/params.hpp"

namespace paceline::gpu {

/// Threads of a block that packs weights: four tiles, one thread for each lane that will read.
inline constexpr std::uint32_t pack_threads = 128;

/// Packs rows from a file into whole strips. One thread a lane of a tile; grid (tiles of a strip * 32,
/// strips).
struct pack_weights_params {
  weight_rows from; ///< the rows of these strips
  std::byte* to;    ///< the first of these strips
  std::size_t strip_bytes;
  std::uint32_t num_tiles; ///< in a strip
};

/// Computes powers of two that bring rows into float16's range. One warp a row; grid (1, rows of the strips).
struct scale_weight_rows_params {
  weight_rows from;
  float* multipliers; ///< of the first row on
};

/// Activations of up to 64 rows as the operand B of mma.m16n8k16: 16 bytes a lane for each unit of 32 columns
/// and each tile of 8 rows. Lane 4 r + t has columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of row r in the unit's
/// first 16 columns, then in its second.
struct arranged_rows {
  std::byte* halves = nullptr; ///< [num_units][num_tiles][32][16]
  float* scales = nullptr;     ///< [8 * num_tiles]: a row is its halves times this, a power of two
  float* sums = nullptr;       ///< [num_units][8 * num_tiles], sums of the halves
  /// Those sums as operand B, 8 bytes a lane for each span of 8 units and each tile of 8 rows: for units 2 t
  /// and 2 t + 1 of row r of the tile, the sum times `sum_multiplier`, rounded to float16, and 2^11 times the
  /// remainder, rounded to float16.
  std::byte* sum_halves = nullptr; ///< [num_units / 8][num_tiles][32][8]
  std::uint32_t num_units = 0;     ///< a multiple of the units in `split_cols`; zeros behind the last column
  /// 1, 2, 4 or 8; rows behind the last one are arbitrary, and products with them are dropped.
  std::uint32_t num_tiles = 0;
};

inline constexpr std::uint32_t unit_cols = 32;
inline constexpr std::uint32_t units_of_span = 8;
inline constexpr float sum_multiplier = 0x1p-5F; ///< brings sums of 32 into float16's range
inline constexpr std::uint32_t token_tile = 8;
inline constexpr std::uint32_t streamed_rows = 64; ///< rows of x for which weights are read at a time
inline constexpr std::uint32_t arrange_threads = 128;
/// Shared memory of a block that searches a row's largest value.
inline constexpr std::uint32_t arrange_shared_bytes = arrange_threads / 32 * sizeof(std::uint32_t);

/// Arranges rows, unchanged or normed with `norm` (runtime/device/op_rms_norm.hpp). One thread for a lane's
/// 16 bytes, four a unit of a row; grid (4 * units / arrange_threads, rows).
struct arrange_rows_params {
  const float* x;
  std::size_t x_stride;
  std::uint32_t num_rows;
  std::uint32_t num_cols;
  const float* norm; ///< [num_cols], or null
  float epsilon;
  arranged_rows out;
};

/// Warps of a block of the streamed products, and strips of a warp.
inline constexpr std::uint32_t stream_warps = 4;
inline constexpr std::uint32_t stream_strips = 2;

/// One product for up to 64 rows of x: two strips a warp; grid (strips / 8, splits). Or a gated one
/// (runtime/device/op_gated_matmul.hpp): one strip of the gate and one of `up` a warp; grid (strips / 4,
/// splits).
struct streamed_params {
  streamed_weights weights;
  streamed_weights up; ///< same type and shape as `weights`; without bytes if the product is not gated
  device::activation act;
  arranged_rows x;
  std::uint32_t num_rows;       ///< of x
  std::uint32_t num_tiles;      ///< in a strip
  std::uint32_t tiles_of_split; ///< with which a block multiplies
  std::uint32_t num_splits;
  float* partial; ///< [num_splits][num_rows][weights.num_rows], to be added up by another kernel; followed by
                  ///< those of `up`
  float* y;       ///< used if `partial` is null
  std::size_t y_stride;
  const float* bias; ///< may be null
  bool add;
};

/// Adds up the splits, gated or not. One thread an output; grid (outputs, rows).
struct add_splits_params {
  const float* partial;
  const float* partial_up; ///< null: not gated
  device::activation act;
  std::uint32_t num_splits;
  std::uint32_t num_rows;
  std::uint32_t num_outputs;
  float* y;
  std::size_t y_stride;
  const float* bias;
  bool add;
};

/// Partial sums of the products that become queries, keys or values.
struct head_products {
  const float* partial; ///< [num_splits][num_rows][num_heads * head_dim]
  std::uint32_t num_splits;
  std::uint32_t num_heads;
  const float* bias; ///< may be null
  const float* norm; ///< [head_dim], may be null
};

/// Heads of a row in a block of finish_heads, one warp each.
inline constexpr std::uint32_t heads_of_block = 4;

/// Computes queries, keys and values from their products and writes the last two to their cells. One warp a
/// head of a row; grid (heads of all three / heads_of_block, rows). Shared memory:
/// [heads_of_block][head_dim].
struct finish_heads_params {
  batch_view batch; ///< of these rows, like `table` and `out`
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

/// Inputs and outputs of the intrinsics' tests; one warp.
struct probe_params {
  const std::uint32_t* a;       ///< [32][4] registers of lanes
  const std::uint32_t* b;       ///< [32][2]
  const float* c;               ///< [32][4]
  float* products;              ///< [32][4]
  const std::byte* copied;      ///< [2][32][16], copied to shared memory and written to
  std::byte* arrived;           ///< [2][32][16], by lanes that did not copy them
  std::uint32_t* halves;        ///< [32]: pairs of float16 of c[l][0], c[l][1], less the pair a[l][0]
  float* widened;               ///< [32]: the lower half of a[l][0]
  std::uint32_t* half_products; ///< [32]: the pair a[l][0] times the pair a[l][1]
  std::uint32_t*
      doubled; ///< [32]: the lower half of a[l][0] in both, xor three times the upper one of a[l][1]
};

/// What a thread of probe_turns does: as kernels must, or a violation.
enum class probe_turn : std::uint8_t {
  in_turn,
  reads_early,  ///< before it waits
  copies_early, ///< begins to copy to shared memory before it waits
  writes_early, ///< something else, before it waits
  some_in_turn, ///< threads without a value return without waiting
  none_in_turn, ///< nobody waits
};

/// A kernel for tests of early starts: to[i] = from[i] + 1, one thread a value. Uses 16 bytes of shared
/// memory a thread. `from` has four times as many values, of which those at multiples of 4 are used.
struct probe_turns_params {
  const float* from; ///< [num_values][4]
  float* to;         ///< [num_values][4]
  std::uint32_t num_values;
  probe_turn how;
};

/// Bytes that a thread of read_memory reads at a time.
inline constexpr std::uint32_t probe_read_bytes = 16;

/// Reads memory, to measure the rate.
struct read_memory_params {
  const std::byte* from; ///< aligned to `probe_read_bytes`
  std::size_t num_reads; ///< by all threads together
  std::uint32_t num_blocks;
  std::uint32_t* words; ///< [num_blocks * threads of a block][4]: the xor of what each thread read
};

} // namespace paceline::gpu
