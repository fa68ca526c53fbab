#pragma once

#include "runtime/device/op_expert_mixture.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/op_short_conv.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/device/tensor_type.hpp"
#include "runtime/model/model_config.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace paceline::apps::bench {

/// Wraps a device's ops and times each call, to show where the time of a forward pass goes. Only for devices
/// whose ops return when the result is complete.
class timed_ops final : public device::ops {
 public:
  struct share {
    std::chrono::nanoseconds time{};
    std::uint64_t weight_bytes = 0;  ///< bytes of the weights used, counted once for each call
    std::uint64_t multiply_adds = 0; ///< in matmuls
  };

  explicit timed_ops(device::ops& inner) : inner_(inner) {}

  /// Shares by op; for matmuls, by shape and weight type: "matmul 576 > 1536+1536 q4_1" (columns > rows of
  /// each output's weights).
  const std::map<std::string, share>& shares() const noexcept { return shares_; }

  std::string_view level() const noexcept override { return inner_.level(); }
  void matmul(const device::matmul_args& a) override {
    share& s = time(shape_of(a), [&] { inner_.matmul(a); });
    for (const device::matmul_output& o : a.outputs) {
      s.weight_bytes += o.weights->size_bytes();
      s.multiply_adds += std::uint64_t{a.num_rows} * o.weights->num_rows() * a.num_cols;
    }
  }
  /// Counts the weights of the expected number of different experts: each row is assumed to choose its
  /// experts uniformly, independently of the other rows.
  void expert_mixture(const device::expert_mixture_args& a) override {
    share& s = time("experts", [&] { inner_.expert_mixture(a); });
    const std::uint64_t used = std::uint64_t{a.num_rows} * a.routing.num_used;
    model::expert_config experts;
    experts.routing = a.routing;
    const double read = model::expected_experts(experts, a.num_rows);
    s.weight_bytes += a.router->size_bytes();
    s.multiply_adds += std::uint64_t{a.num_rows} * a.router->num_rows() * a.num_cols;
    for (const device::matrix_set* set : {a.gate, a.up, a.down}) {
      const device::matrix& one = set->at(0);
      s.weight_bytes += static_cast<std::uint64_t>(read * static_cast<double>(one.size_bytes()));
      s.multiply_adds += used * one.num_rows() * one.num_cols();
    }
  }
  void embed(const device::embed_args& a) override {
    time("embed", [&] { inner_.embed(a); });
  }
  void short_conv(const device::short_conv_args& a) override {
    time("conv", [&] { inner_.short_conv(a); });
  }
  void gated_delta(const device::gated_delta_args& a) override {
    time("delta", [&] { inner_.gated_delta(a); });
  }
  void rms_norm(const device::rms_norm_args& a) override {
    time("norm", [&] { inner_.rms_norm(a); });
  }
  void rope_table(const device::rope_table_args& a) override {
    time("rope", [&] { inner_.rope_table(a); });
  }
  void rope(const device::rope_args& a) override {
    time("rope", [&] { inner_.rope(a); });
  }
  void kv_write(const device::kv_write_args& a) override {
    time("kv", [&] { inner_.kv_write(a); });
  }
  void kv_copy(const device::kv_copy_args& a) override {
    time("kv", [&] { inner_.kv_copy(a); });
  }
  void attention(const device::attention_args& a) override {
    time("attention", [&] { inner_.attention(a); });
  }
  void glu(const device::glu_args& a) override {
    time("glu", [&] { inner_.glu(a); });
  }
  void add(const device::add_args& a) override {
    time("add", [&] { inner_.add(a); });
  }
  void gather(const device::gather_args& a) override {
    time("gather", [&] { inner_.gather(a); });
  }
  std::span<float> scratch(std::size_t n) override { return inner_.scratch(n); }

 private:
  static std::string shape_of(const device::matmul_args& a) {
    std::string name = "matmul " + std::to_string(a.num_cols) + " > ";
    for (const device::matmul_output& o : a.outputs)
      name += (&o == a.outputs.data() ? "" : "+") + std::to_string(o.weights->num_rows());
    return name + " " + std::string(device::traits_of(a.outputs.front().weights->type())->name);
  }

  template <class Op>
  share& time(const std::string& name, const Op& op) {
    share& s = shares_[name];
    const auto begin = std::chrono::steady_clock::now();
    op();
    s.time += std::chrono::steady_clock::now() - begin;
    return s;
  }

  device::ops& inner_;
  std::map<std::string, share> shares_;
};

} // namespace paceline::apps::bench
