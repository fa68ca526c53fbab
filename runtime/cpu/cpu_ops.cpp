#include "runtime/cpu/cpu_ops.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/host_buffer.hpp"
#include "runtime/cpu/packed_matrix.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/op_expert_mixture.hpp"

namespace paceline::cpu {

cpu_ops::cpu_ops(thread_team& team, kernel_level level)
    : team_(team), name_("cpu/" + std::string(to_string(level))), matmul_(team, matmul_kernels_of(level)),
      rows_(team, level), experts_(team, matmul_, rows_), convolutions_(team),
      delta_rules_(team, row_kernels_of(level)) {}

void cpu_ops::matmul(const device::matmul_args& args) { matmul_.run(args); }

void cpu_ops::expert_mixture(const device::expert_mixture_args& args) {
  const input_rows x = normed(args.norm, args.x, args.x_stride, args.num_rows, args.num_cols);
  device::expert_mixture_args of_normed = args;
  of_normed.x = x.at;
  of_normed.x_stride = x.stride;
  of_normed.norm = {};
  experts_.run(of_normed);
}

void cpu_ops::embed(const device::embed_args& args) {
  const auto* const table = dynamic_cast<const packed_matrix*>(args.table);
  PACELINE_CHECK(table != nullptr, "embed: the table is not of this device");
  team_.parallel_for(static_cast<std::uint32_t>(args.tokens.size()), [&](std::uint32_t r, std::uint32_t) {
    const token_id token = args.tokens[r];
    PACELINE_CHECK(token.value >= 0 && static_cast<std::uint32_t>(token.value) < table->num_rows(),
                   "embed: token " + to_string(token) + " is outside the vocabulary");
    float* const out = args.out + r * args.out_stride;
    table->dequantize_row(static_cast<std::uint32_t>(token.value), {out, table->num_cols()});
    if (args.scale == 1) return;
    for (std::uint32_t i = 0; i < table->num_cols(); ++i) out[i] *= args.scale;
  });
}

std::span<float> cpu_ops::scratch(std::size_t num_values) {
  const std::size_t num_bytes = num_values * sizeof(float);
  PACELINE_CHECK(num_bytes / sizeof(float) == num_values, "scratch: size overflows");
  if (!scratch_ || scratch_->size_bytes() < num_bytes) {
    scratch_.reset(); // frees the old memory before allocating the new
    scratch_ = make_host_buffer(num_bytes);
  }
  return {reinterpret_cast<float*>(scratch_->data()), num_values};
}

} // namespace paceline::cpu
