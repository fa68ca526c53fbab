#pragma once

#include "gpu/kernels/kernel_id.hpp"
#include "gpu/kernels/streamed_layout.hpp"
#include "runtime/device/conv_plan.hpp"
#include "runtime/device/op_attention.hpp"
#include "runtime/device/op_gated_delta.hpp"
#include "runtime/device/op_glu.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/device/op_rope.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/device/state_plan.hpp"
#include "runtime/device/tensor_type.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

// Parameters of kernels. Pointers are device addresses, strides are in values. The contracts of the ops
// (runtime/device/op_<name>.hpp) document the arrays. "Grid (x, y)" is the size of a launch. y counts thread
// blocks. x counts threads where the comment says "one thread for each value", "... block of 32 values" or
// "... pair"; elsewhere x counts thread blocks, too.

/// A matrix in device memory, with rows as in the file.
struct weight_rows {
  const std::byte* bytes = nullptr;
  std::size_t row_bytes = 0;
  device::tensor_type type = device::tensor_type::f32;
  std::uint16_t block_bytes = 0;  ///< from the type's traits
  std::uint16_t block_values = 0; ///< from the type's traits; 32 or 256 if the type is quantised
  std::uint32_t num_rows = 0;
  std::uint32_t num_cols = 0;
};

/// Bytes of shared memory that a launch can have without asking for more.
inline constexpr std::uint32_t most_shared_bytes = 48 * 1024;

/// Number of activations that share a scale.
inline constexpr std::uint32_t quantised_block = 32;
/// Number of codes whose sum is computed in advance, for weight formats with minima.
inline constexpr std::uint32_t quantised_group = 16;

/// Quantised activations. A row has `num_planes` planes (2 if `matmul_args::two_planes`, else 1), which are
/// adjacent.
struct quantised_rows {
  std::int8_t* codes = nullptr; ///< [num_rows * num_planes][num_cols]
  float* scales = nullptr;      ///< [num_rows * num_planes][num_cols / 32]
  std::int16_t* sums = nullptr; ///< [num_rows * num_planes][num_cols / 16], sums of codes
};

/// One thread for each block of 32 values; grid (blocks of a row, rows).
struct quantise_rows_params {
  const float* x;
  std::size_t x_stride;
  std::uint32_t num_cols;
  std::uint32_t num_planes;
  quantised_rows out;
};

/// Warps of a block of matmul_quantised.
inline constexpr std::uint32_t matmul_warps = 4;
/// Planes of rows that one warp of matmul_quantised multiplies at a time.
inline constexpr std::uint32_t matmul_chains = 8;

/// In shared memory, one object for each warp. It has the terms of the sums of one output for `matmul_chains`
/// planes of rows. The terms are for 32 blocks of columns; each lane writes those of one block. The row
/// length 33 avoids bank conflicts.
struct chain_terms {
  float product[matmul_chains][33];
  float scale[matmul_chains][33];
  float sum_of_group[2][matmul_chains][33]; ///< times the scale
  float min_of_group[2][33];
};

/// Outputs of a block of matmul_float, and the number of rows of x that the block multiplies. A thread has
/// one of the two sums (even columns, odd columns) of one output of one row.
inline constexpr std::uint32_t float_outputs = 8;
inline constexpr std::uint32_t float_rows = 8;
inline constexpr std::uint32_t float_threads = 2 * float_outputs * float_rows;
/// Columns that matmul_float keeps in shared memory: each thread loads one column.
inline constexpr std::uint32_t float_columns = float_threads;

/// Some columns of a block's weights and rows of x, in shared memory. The padding avoids bank conflicts.
struct float_tile {
  float weights[float_outputs][float_columns + 4];
  float x[float_rows][float_columns + 4];
};

/// One product of a matmul. Quantised weights: one warp for each output; grid in blocks (outputs /
/// matmul_warps, planes of rows / matmul_chains). Other weights: two threads for each output of a row; grid
/// in blocks (outputs / float_outputs, rows / float_rows).
struct matmul_params {
  weight_rows weights;
  std::uint32_t num_rows;   ///< of x
  std::uint32_t num_planes; ///< of quantised x
  quantised_rows quantised; ///< x, for quantised weights
  const float* x;           ///< for other weights
  std::size_t x_stride;
  float* y;
  std::size_t y_stride;
  const float* bias; ///< may be null
  bool add;
};

/// One thread for each block of 32 values; grid (blocks of a row, rows).
struct embed_params {
  weight_rows table;
  streamed_weights streamed; ///< used instead of `table` if it has bytes
  const token_id* tokens;
  float* out;
  std::size_t out_stride;
  float scale;
};

/// One warp for each part of a row; grid (parts, rows).
struct rms_norm_params {
  const float* x;
  std::size_t x_stride;
  float* y;
  std::size_t y_stride;
  const float* weight;
  std::uint32_t width;
  float epsilon;
};

/// Threads of a block of add_normed.
inline constexpr std::uint32_t add_normed_threads = 128;

/// One block for each row; grid (1, rows).
struct add_normed_params {
  const float* x;
  std::size_t x_stride;
  float* hidden;
  std::size_t hidden_stride;
  const float* weight;
  std::uint32_t width;
  float epsilon;
};

/// One thread for each pair; grid (pairs of all heads, rows).
struct rope_params {
  float* x;
  std::size_t stride;
  const float* table;
  std::uint32_t num_heads;
  std::uint32_t head_dim;
  std::uint32_t num_pairs;
  device::rope_layout layout;
};

/// One thread for each value; grid (values of a row, rows).
struct glu_params {
  const float* gate;
  const float* up; ///< null: `out` is the activation of `gate` alone
  std::size_t stride;
  float* out;
  std::size_t out_stride;
  std::uint32_t width;
  device::activation act;
};

/// One thread for each value; grid (values of a row, rows).
struct add_params {
  float* y;
  std::size_t y_stride;
  const float* x;
  std::size_t x_stride;
  std::uint32_t width;
  const float* gate = nullptr; ///< one value for each row; null: none
  std::size_t gate_stride = 0;
  float scale = 1;
};

/// One thread for each value; grid (values of a row, rows).
struct gather_params {
  float* y;
  std::size_t y_stride;
  const float* x;
  std::size_t x_stride;
  const std::uint32_t* rows; ///< null: row k of y is row k of x
  std::uint32_t width;
};

/// One thread for each value; grid (values of a row, rows).
struct scatter_params {
  float* y;
  std::size_t y_stride;
  const std::uint32_t* rows;
  const float* x;
  std::size_t x_stride;
  std::uint32_t width;
};

/// One thread for each value; grid (values of a row, rows).
struct gate_conv_inputs_params {
  float* u; ///< overwritten by the products
  const float* gate;
  std::size_t stride;
  std::uint32_t width;
};

/// One thread for each value; grid (values of a row, rows).
struct short_conv_params {
  const float* u;        ///< as `gate_conv_inputs` left it
  const float* out_gate; ///< null: none
  float* out;
  std::size_t stride;
  std::uint32_t width;
  std::uint32_t num_taps;
  const float* weights; ///< [num_taps][width]
  const float* bias;    ///< null: none
  float* states;
  std::size_t slot_stride;
  const device::conv_input* inputs; ///< [num_rows][num_taps - 1]: `device::plan_conv`
  const std::int32_t* slots;        ///< [num_rows]: where a row leaves its state; -1: nowhere
};

/// Threads of a block of a gated delta rule: four for each column, each with a quarter of its elements.
inline constexpr std::uint32_t delta_threads = 4 * device::delta_columns;

/// In shared memory: data that the threads of a block of a gated delta rule exchange in a step.
struct delta_memory {
  float q[device::max_delta_keys];
  float k[device::max_delta_keys];
  float seen[4][device::delta_columns]; ///< parts of S^T k
  float out[4][device::delta_columns];  ///< parts of S^T q
};

/// One block for each group of columns of a head's state; grid (heads times groups, texts). Texts and steps:
/// see `device::state_plan`.
struct gated_delta_params {
  device::delta_heads heads;
  const device::state_step* steps;
  const std::uint32_t* first; ///< [texts + 1]: index of each text's first step, and the end
  const float* x;
  const float* beta;
  const float* alpha;
  float* out;
  std::size_t stride;
  const float* decay;
  const float* dt_bias;
  float scale;
  device::delta_states states;
};

/// The rows of a pass in device memory.
struct batch_view {
  const device::batch_entry* rows;
  const kv_slot* paths;
  const block_id* blocks;           ///< the tables of all sequences, concatenated
  const std::uint32_t* first_block; ///< [num_sequences]: index in `blocks` at which each table begins
};

/// One warp for each head of a row; grid (key-value heads, rows).
struct kv_write_params {
  batch_view batch;
  device::kv_layer layer;
  const float* keys;
  const float* values;
  std::size_t stride;
};

/// One thread for each dimension of each key-value head. Within one pool a thread makes all copies in order,
/// and the grid has one row of blocks. Between two pools a thread makes one copy, and the grid has one row of
/// blocks for each copy.
struct kv_copy_params {
  device::kv_layer layer;
  device::kv_layer from; ///< another pool, or `layer`
  const device::kv_copy* copies;
  std::uint32_t num_copies; ///< made by each thread
};

/// Threads of a block of attention.
inline constexpr std::uint32_t attention_threads = 128;

/// In shared memory: data of a block of attention about the current split.
struct split_memory {
  float scores[device::attention_split]; ///< scores, later probabilities
  /// Probabilities, multiplied by the scales of the values if the cells are quantised.
  float weights[device::attention_split];
  float warp_max[attention_threads / 32];
  float sum;
};

/// One block for each head of a row; grid (query heads, rows).
struct attention_params {
  batch_view batch;
  device::kv_layer layer;
  const float* queries;
  std::size_t query_stride;
  float* out;
  std::size_t out_stride;
  std::uint32_t num_heads;
  float scale;
  float soft_cap;
  std::uint32_t window;
};

} // namespace paceline::gpu
