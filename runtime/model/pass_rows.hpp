#pragma once

#include "runtime/device/matrix.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace paceline::model {

/// An array of a pass's intermediate values: the pointer that receives its address, and the number of values
/// in a row.
using row_array = std::pair<float**, std::size_t>;

/// Divides the stream's scratch memory: each array is [num_rows][its width], at cache line boundaries. Also
/// allocates `num_more` floats after the arrays and returns their address.
inline float* divide_scratch(device::ops& ops, std::uint32_t num_rows, std::span<const row_array> arrays,
                             std::size_t num_more = 0) {
  constexpr std::size_t line = 16;
  const auto padded = [&](std::size_t width) { return (num_rows * width + line - 1) / line * line; };
  std::size_t total = num_more;
  for (const auto& [array, width] : arrays) total += padded(width);
  float* next = ops.scratch(total).data();
  for (const auto& [array, width] : arrays) {
    *array = next;
    next += padded(width);
  }
  return next;
}

/// Index of the input vector of a row whose token id is `vocab_size` or above; `batch.num_inputs` or more if
/// the row uses an embedding.
inline std::uint32_t given_input(const device::row_batch& batch, const device::batch_entry& row,
                                 std::uint32_t vocab_size) {
  const auto token = static_cast<std::uint32_t>(row.token.value);
  return token < vocab_size ? batch.num_inputs : token - vocab_size;
}

/// Embeddings of the rows' tokens, times `scale`; rows of `out` are `stride` values apart. Rows with
/// an input vector get a placeholder, which `put_given_inputs` overwrites.
inline void embed_rows(device::ops& ops, const device::matrix& table, const device::row_batch& batch,
                       float* out, std::size_t stride, float scale) {
  std::vector<token_id> tokens;
  tokens.reserve(batch.rows.size());
  for (const device::batch_entry& row : batch.rows) {
    const bool is_given = given_input(batch, row, table.num_rows()) < batch.num_inputs;
    tokens.push_back(is_given ? token_id{0} : row.token);
  }
  ops.embed({&table, tokens, out, stride, scale});
}

/// Overwrites each row of `out` that has an input vector with this vector, unscaled. `free`: scratch memory,
/// `width` floats for each of these rows.
inline void put_given_inputs(device::ops& ops, const device::row_batch& batch, std::uint32_t vocab_size,
                             float* free, float* out, std::uint32_t width) {
  std::vector<std::uint32_t> rows, inputs;
  for (std::uint32_t r = 0; r < batch.rows.size(); ++r)
    if (const auto input = given_input(batch, batch.rows[r], vocab_size); input < batch.num_inputs)
      rows.push_back(r), inputs.push_back(input);
  if (rows.empty()) return;
  const auto count = static_cast<std::uint32_t>(rows.size());
  ops.gather({free, width, batch.inputs, width, inputs.data(), count, width});
  ops.scatter({out, width, rows.data(), free, width, count, width});
}

} // namespace paceline::model
