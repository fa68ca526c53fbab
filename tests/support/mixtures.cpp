#include "tests/support/mixtures.hpp"

#include "runtime/cpu/matmul_reference.hpp"
#include "runtime/device/scalar_math.hpp"

#include <algorithm>

namespace paceline::test {

mixture small_mixture(device::tensor_type type, std::uint32_t num_experts, std::uint32_t num_used,
                      std::mt19937& random) {
  const std::uint32_t block = device::traits_of(type)->block_values;
  mixture m;
  m.num_cols = std::max(64U, block);
  m.inner = std::max(32U, block);
  m.num_outputs = 37;
  m.routing.num_experts = num_experts;
  m.routing.num_used = num_used;
  m.routing.normalised = true;
  m.router = random_tensor(device::tensor_type::f32, num_experts, m.num_cols, random);
  for (std::uint32_t e = 0; e < num_experts; ++e) {
    m.gate.push_back(random_tensor(type, m.inner, m.num_cols, random));
    m.up.push_back(random_tensor(type, m.inner, m.num_cols, random));
    m.down.push_back(random_tensor(type, m.num_outputs, m.inner, random));
  }
  return m;
}

std::vector<float> mixture_reference(const mixture& m, std::span<const float> x) {
  std::vector<float> out;
  for (std::size_t begin = 0; begin < x.size(); begin += m.num_cols) {
    const std::span<const float> row = x.subspan(begin, m.num_cols);
    const auto logits = cpu::matmul_reference(m.router.view(), {row, 1});
    std::vector<device::used_expert> slots(m.routing.num_used);
    device::route(m.routing, logits, slots);
    std::vector<float> y;
    for (const device::used_expert& slot : slots) {
      const auto e = static_cast<std::size_t>(slot.index);
      std::vector<float> input(row.begin(), row.end());
      for (float& value : input)
        if (m.weigh_inputs) value = value * slot.weight;
      auto inner = cpu::matmul_reference(m.gate[e].view(), {input, 1, m.two_planes});
      const auto up = cpu::matmul_reference(m.up[e].view(), {input, 1, m.two_planes});
      for (std::size_t i = 0; i < inner.size(); ++i)
        inner[i] = inner[i] / (1.0F + device::exp_reference(-inner[i])) * up[i];
      const auto part = cpu::matmul_reference(m.down[e].view(), {inner, 1});
      const float weight = m.weigh_inputs ? 1.0F : slot.weight;
      for (std::size_t i = 0; i < part.size(); ++i) {
        const float weighted = weight * part[i];
        if (y.size() < part.size())
          y.push_back(weighted);
        else
          y[i] = y[i] + weighted;
      }
    }
    out.insert(out.end(), y.begin(), y.end());
  }
  return out;
}

} // namespace paceline::test
