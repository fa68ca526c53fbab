#pragma once

#include "runtime/device/op_expert_mixture.hpp"
#include "tests/support/stored_tensors.hpp"

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace paceline::test {

/// The weights of a mixture of experts, as a file stores them, and what is done with them.
struct mixture {
  std::uint32_t num_cols = 0, inner = 0, num_outputs = 0;
  stored_tensor router;
  std::vector<stored_tensor> gate, up, down; ///< of each expert
  device::expert_routing routing;            ///< arrays are the host's
  bool weigh_inputs = false, two_planes = false;
};

/// Random weights of `type`, of the smallest sizes that it allows; the router is F32. The weights of the
/// selected experts are normalised.
mixture small_mixture(device::tensor_type type, std::uint32_t num_experts, std::uint32_t num_used,
                      std::mt19937& random);

/// op_expert_mixture.hpp as code, a row at a time, for `silu`.
std::vector<float> mixture_reference(const mixture& m, std::span<const float> x);

} // namespace paceline::test
