#pragma once

#include "runtime/device/matrix.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace paceline::model {

/// An array of a pass's intermediate values: where its address is stored, and the values of a row.
using row_array = std::pair<float**, std::size_t>;

/// Divides the stream's scratch memory: each array is [num_rows][its width], at cache line boundaries.
/// Returns `num_more` further values behind them.
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

/// Embeddings of the rows' tokens, times `scale`; rows of `out` are `stride` values apart.
inline void embed_rows(device::ops& ops, const device::matrix& table, const device::row_batch& batch,
                       float* out, std::size_t stride, float scale) {
  std::vector<token_id> tokens;
  tokens.reserve(batch.rows.size());
  for (const device::batch_entry& row : batch.rows) tokens.push_back(row.token);
  ops.embed({&table, tokens, out, stride, scale});
}

} // namespace paceline::model
