#pragma once

#include "runtime/device/op_attention.hpp"

#include <vector>

namespace paceline::gpu {

/// One head of one row.
struct attended_head {
  std::vector<float> out;     ///< by the contract of gpu/kernels/split_attention_params.hpp, step by step
  std::vector<double> exact;  ///< softmax and sums of the stored values, in double precision
  std::vector<double> bounds; ///< largest deviation that the contract's roundings may cause
};

/// Attention of row `row` and query head `head`; all arrays of `args` are in host memory.
attended_head split_attention_reference(const device::attention_args& args, std::uint32_t row,
                                        std::uint32_t head);

} // namespace paceline::gpu
