#include "runtime/device/ops.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/op_add_normed.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_gated_matmul.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/op_qkv.hpp"
#include "runtime/device/op_rms_norm.hpp"

#include <array>
#include <string>

namespace paceline::device {

void ops::not_offered(std::string_view op) const {
  throw check_failure("device " + std::string(level()) + " does not offer the op " + std::string(op));
}

ops::input_rows ops::normed(const input_norm& norm, const float* x, std::size_t x_stride,
                            std::uint32_t num_rows, std::uint32_t num_cols) {
  if (norm.weight == nullptr) return {x, x_stride};
  rms_norm({x, x_stride, norm.normed, num_cols, norm.weight, num_rows, 1, num_cols, norm.epsilon});
  return {norm.normed, num_cols};
}

void ops::matmul(const matmul_args&) { not_offered("matmul"); }
void ops::gated_matmul(const gated_matmul_args& args) {
  const input_rows x = normed(args.norm, args.x, args.x_stride, args.num_rows, args.num_cols);
  const std::uint32_t width = args.gate->num_rows();
  const std::size_t stride = 2 * std::size_t{width};
  float* const up = args.products + width;
  const std::array outputs{matmul_output{args.gate, args.products, stride, nullptr, false},
                           matmul_output{args.up, up, stride, nullptr, false}};
  matmul({x.at, x.stride, args.num_rows, args.num_cols, args.two_planes, outputs});
  glu({args.products, up, stride, args.out, args.out_stride, args.num_rows, width, args.act});
}
void ops::expert_mixture(const expert_mixture_args&) { not_offered("expert_mixture"); }
void ops::short_conv(const short_conv_args&) { not_offered("short_conv"); }
void ops::gated_delta(const gated_delta_args&) { not_offered("gated_delta"); }
void ops::embed(const embed_args&) { not_offered("embed"); }
void ops::rms_norm(const rms_norm_args&) { not_offered("rms_norm"); }
void ops::add_normed(const add_normed_args& args) {
  rms_norm({args.x, args.x_stride, args.x, args.x_stride, args.weight, args.num_rows, 1, args.width,
            args.epsilon});
  add({args.hidden, args.hidden_stride, args.x, args.x_stride, args.num_rows, args.width});
}
void ops::rope_table(const rope_table_args&) { not_offered("rope_table"); }
void ops::rope(const rope_args&) { not_offered("rope"); }
void ops::kv_write(const kv_write_args&) { not_offered("kv_write"); }
void ops::qkv(const qkv_args& args) {
  const std::uint32_t num_rows = args.num_rows(), head_dim = args.cells.head_dim;
  const input_rows x = normed(args.norm, args.x, args.x_stride, num_rows, args.num_cols);
  const std::size_t stride = args.stride();
  float* const q = args.out;
  float* const k = q + args.q_size();
  float* const v = k + args.kv_size();
  const std::array outputs{matmul_output{args.q.weights, q, stride, args.q.bias, false},
                           matmul_output{args.k.weights, k, stride, args.k.bias, false},
                           matmul_output{args.v.weights, v, stride, args.v.bias, false}};
  matmul({x.at, x.stride, num_rows, args.num_cols, args.two_planes, outputs});
  const auto norm_heads = [&](float* heads, const float* weight, std::uint32_t num_heads) {
    if (weight == nullptr) return;
    const std::uint32_t num_parts = args.norms_rows ? 1 : num_heads;
    const std::uint32_t width = num_heads / num_parts * head_dim;
    rms_norm({heads, stride, heads, stride, weight, num_rows, num_parts, width, args.head_epsilon});
  };
  norm_heads(q, args.q.norm, args.num_heads);
  norm_heads(k, args.k.norm, args.cells.num_heads);
  const auto rotate = [&](float* heads, const float* table, std::uint32_t num_heads) {
    rope({heads, stride, table, num_rows, num_heads, head_dim, args.num_pairs, args.layout});
  };
  if (args.num_pairs != 0 && args.query_table == nullptr) {
    rotate(q, args.table, args.num_heads + args.cells.num_heads); // the keys follow the queries in memory
  } else if (args.num_pairs != 0) {
    rotate(q, args.query_table, args.num_heads);
    rotate(k, args.table, args.cells.num_heads);
  }
  kv_write({args.batch, args.cells, k, v, stride});
}
void ops::kv_copy(const kv_copy_args&) { not_offered("kv_copy"); }
void ops::attention(const attention_args&) { not_offered("attention"); }
void ops::glu(const glu_args&) { not_offered("glu"); }
void ops::add(const add_args&) { not_offered("add"); }
void ops::gather(const gather_args&) { not_offered("gather"); }
void ops::scatter(const scatter_args&) { not_offered("scatter"); }
const chosen_run* ops::choose(const choose_args&) { not_offered("choose"); }
bool ops::chain(const chain_args&, const std::function<void()>&) { not_offered("chain"); }
std::span<float> ops::scratch(std::size_t) { not_offered("scratch"); }
float* ops::place_for(std::span<float> host) { return host.data(); }
void ops::deliver() {}

} // namespace paceline::device
