#pragma once

#include "gpu/kernels/params.hpp"

namespace paceline::gpu {

/// Threads of a block that packs four tiles of weights: one for each lane that will read a tile.
inline constexpr std::uint32_t pack_threads = 128;

/// Packs rows from a file into whole strips. One thread for each lane of a tile; grid (tiles of a strip * 32
/// threads, strips).
struct pack_weights_params {
  weight_rows from; ///< the rows of these strips
  std::byte* to;    ///< the first of these strips
  std::size_t strip_bytes;
  std::uint32_t num_tiles; ///< in a strip
};

/// Computes powers of two that bring rows into the range of float16. One warp for each row; grid in blocks
/// (1, rows of the strips).
struct scale_weight_rows_params {
  weight_rows from;
  float* multipliers; ///< [rows of the strips]
};

/// Activations, arranged as operand B of mma.m16n8k16. There are 16 bytes for each lane, unit of 32 columns
/// and tile of 8 rows. Lane 4 r + t has columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of row r in the unit's first
/// 16 columns, then the same in its second 16.
struct arranged_rows {
  std::byte* halves = nullptr; ///< [num_units][num_tiles][32][16]
  float* scales = nullptr;     ///< [8 * num_tiles], powers of two: x = scale * float16 value
  float* sums = nullptr;       ///< [num_units][8 * num_tiles], sums of the float16 values of a unit
  /// The same sums as operand B: 8 bytes for each lane, span of 8 units and tile of 8 rows. Lane 4 r + t has
  /// two float16 for units 2 t and 2 t + 1 of row r: the sum times `sum_multiplier`, rounded. Then it has
  /// 2^11 times the remainders of these roundings, also rounded to float16.
  std::byte* sum_halves = nullptr; ///< [num_units / 8][num_tiles][32][8]
  std::uint32_t num_units = 0;     ///< a multiple of the units in `split_cols`; zeros after the last column
  /// 1, 2, 4 or 8 for `streamed_params`, any number for `expert_stream_params`. Rows after the last one are
  /// arbitrary, and products with them are dropped.
  std::uint32_t num_tiles = 0;
};

inline constexpr std::uint32_t unit_cols = 32;
inline constexpr std::uint32_t units_of_span = 8;
inline constexpr float sum_multiplier = 0x1p-5F; ///< brings sums of 32 into float16's range
inline constexpr std::uint32_t token_tile = 8;
inline constexpr std::uint32_t streamed_rows = 64; ///< most rows of x for which weights are read once
inline constexpr std::uint32_t arrange_threads = 128;
inline constexpr std::uint32_t arrange_warps = arrange_threads / 32;
/// The widest row that is brought to shared memory before its norm is computed.
inline constexpr std::uint32_t most_cols_brought = 8192;
/// Bytes of shared memory of a block that arranges rows: a float for each warp, then a row to be normed.
constexpr std::uint32_t arrange_shared_bytes(std::uint32_t num_cols, bool is_normed) {
  const bool is_brought = is_normed && num_cols <= most_cols_brought;
  return (arrange_warps + (is_brought ? num_cols : 0)) * static_cast<std::uint32_t>(sizeof(float));
}

/// Arranges rows, unchanged or after an RMS norm with weights `norm` (runtime/device/op_rms_norm.hpp). One
/// thread for the 16 bytes of a lane, so four threads for each unit of a row; grid in blocks (4 * units /
/// arrange_threads, rows).
struct arrange_rows_params {
  const float* x;
  std::size_t x_stride;
  std::uint32_t num_rows;
  std::uint32_t num_cols;
  const float* norm; ///< [num_cols], or null
  float epsilon;
  arranged_rows out;
};

/// Warps of a block of the streamed products, and strips that a warp multiplies.
inline constexpr std::uint32_t stream_warps = 4;
inline constexpr std::uint32_t stream_strips = 2;

/// Distance, in floats, between rows of x in the shared memory in which a warp leaves its sums.
inline constexpr std::uint32_t stream_sums_row = stream_strips * strip_rows + 4;

/// The formats of streamed weights, by their names in `kernel_id`.
#define PACELINE_FOR_STREAMED_FORMATS(use)                                                                   \
  use(q4_0) use(q4_1) use(q4_k) use(q5_0) use(q5_k) use(q6_k) use(q8_0) use(f8) use(f16) use(bf16)

/// One product for up to 64 rows of x: a warp multiplies two strips; grid in blocks (strips / 8, splits). Or
/// a gated product (runtime/device/op_gated_matmul.hpp): a warp multiplies one strip of the gate and one of
/// `up`; grid in blocks (strips / 4, splits).
struct streamed_params {
  streamed_weights weights;
  streamed_weights up; ///< same type and shape as `weights`; without bytes if the product is not gated
  device::activation act;
  arranged_rows x;
  std::uint32_t num_rows;       ///< of x
  std::uint32_t num_tiles;      ///< in a strip
  std::uint32_t tiles_of_split; ///< tiles of a strip that a block multiplies
  std::uint32_t num_splits;
  /// [num_splits][num_rows][weights.num_rows], summed by a later kernel; followed by the sums of `up`.
  float* partial;
  float* y; ///< used if `partial` is null
  std::size_t y_stride;
  const float* bias; ///< may be null
  bool add;
};

/// Sums the splits of a product, gated or not. One thread for each output of a row; grid (outputs in threads,
/// rows).
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

/// The partial sums of the product that gives queries, keys or values, and the bias and the weights of the
/// QK norm that are to be applied.
struct head_products {
  const float* partial; ///< [num_splits][num_rows][num_heads * head_dim]
  std::uint32_t num_splits;
  std::uint32_t num_heads;
  const float* bias; ///< may be null
  const float* norm; ///< [head_dim], may be null
};

/// Heads of a row in a block of finish_heads; each has one warp.
inline constexpr std::uint32_t heads_of_block = 4;

/// Computes queries, keys and values from the partial sums, and writes keys and values to their cells. One
/// warp for each head of a row; grid in blocks (heads of all three / heads_of_block, rows). Shared memory:
/// [heads_of_block][head_dim] floats.
struct finish_heads_params {
  batch_view batch; ///< the same rows as `table` and `out`
  device::kv_layer layer;
  head_products q, k, v;
  const float* table;       ///< [num_rows][2 * num_pairs], cosines and sines, for keys
  const float* query_table; ///< the same for queries; may be `table`
  std::uint32_t num_pairs;
  device::rope_layout layout;
  float epsilon;
  std::uint32_t num_rows;
  float* out; ///< queries
  std::size_t out_stride;
};

/// Inputs and outputs of the kernel that tests the intrinsics. It has one warp.
struct probe_params {
  const std::uint32_t* a;       ///< [32][4] registers of lanes
  const std::uint32_t* b;       ///< [32][2]
  const float* c;               ///< [32][4]
  float* products;              ///< [32][4]
  const std::byte* copied;      ///< [2][32][16]: copied to shared memory
  std::byte* arrived;           ///< [2][32][16]: the copied bytes, as seen by lanes that did not copy them
  std::uint32_t* halves;        ///< [32]: the pair of c[l][0] and c[l][1] in float16, minus the pair a[l][0]
  float* widened;               ///< [32]: the lower float16 of a[l][0], as float32
  std::uint32_t* half_products; ///< [32]: the pair a[l][0] times the pair a[l][1]
  std::uint32_t*
      doubled; ///< [32]: the lower half of a[l][0] in both halves, xor three times the upper half of a[l][1]
};

/// What the threads of probe_turns do: they keep the rules of early starts (`in_turn`) or break one.
enum class probe_turn : std::uint8_t {
  in_turn,
  reads_early,  ///< reads `from` before it waits for the previous kernel
  copies_early, ///< begins to copy to shared memory before it waits
  writes_early, ///< writes another value before it waits
  some_in_turn, ///< threads without a value return without waiting
  none_in_turn, ///< nobody waits
};

/// Parameters of a kernel for tests of early starts: to[4 i] = from[4 i] + 1, with one thread for each i <
/// num_values. It uses 16 bytes of shared memory for each thread.
struct probe_turns_params {
  const float* from; ///< [num_values][4]
  float* to;         ///< [num_values][4]
  std::uint32_t num_values;
  probe_turn how;
};

/// Bytes that a thread of read_memory reads at a time.
inline constexpr std::uint32_t probe_read_bytes = 16;

/// Parameters of a kernel that measures the rate at which memory is read.
struct read_memory_params {
  const std::byte* from; ///< aligned to `probe_read_bytes`
  std::size_t num_reads; ///< by all threads together
  std::uint32_t num_blocks;
  std::uint32_t* words; ///< [num_blocks * threads of a block][4]: the xor of what each thread read
};

} // namespace paceline::gpu
