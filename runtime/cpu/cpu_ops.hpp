#pragma once

#include "runtime/cpu/expert_mixture_runner.hpp"
#include "runtime/cpu/gated_delta_runner.hpp"
#include "runtime/cpu/kernel_level.hpp"
#include "runtime/cpu/matmul.hpp"
#include "runtime/cpu/row_runner.hpp"
#include "runtime/cpu/short_conv_runner.hpp"
#include "runtime/device/buffer.hpp"
#include "runtime/device/ops.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace paceline::cpu {

class thread_team;

/// The ops of the host device. Calls return when the result is complete. Used by one thread at a time: the
/// one that calls the team.
class cpu_ops final : public device::ops {
 public:
  cpu_ops(thread_team& team, kernel_level level);

  std::string_view level() const noexcept override { return name_; }

  std::chrono::nanoseconds time_aside() const noexcept override { return time_aside_; }
  void add_time_aside(std::chrono::nanoseconds time) noexcept { time_aside_ += time; }

  void matmul(const device::matmul_args& args) override;
  void expert_mixture(const device::expert_mixture_args& args) override;
  void embed(const device::embed_args& args) override;
  void rms_norm(const device::rms_norm_args& args) override { rows_.rms_norm(args); }
  void rope_table(const device::rope_table_args& args) override { rows_.rope_table(args); }
  void rope(const device::rope_args& args) override { rows_.rope(args); }
  void kv_write(const device::kv_write_args& args) override { rows_.kv_write(args); }
  void kv_copy(const device::kv_copy_args& args) override { rows_.kv_copy(args); }
  void attention(const device::attention_args& args) override { rows_.attention(args); }
  void glu(const device::glu_args& args) override { rows_.glu(args); }
  void add(const device::add_args& args) override { rows_.add(args); }
  void gather(const device::gather_args& args) override { rows_.gather(args); }
  void scatter(const device::scatter_args& args) override { rows_.scatter(args); }
  void short_conv(const device::short_conv_args& args) override { convolutions_.run(args); }
  void gated_delta(const device::gated_delta_args& args) override { delta_rules_.run(args); }
  std::span<float> scratch(std::size_t num_values) override;

 private:
  thread_team& team_;
  const std::string name_;
  matmul_runner matmul_;
  row_runner rows_;
  expert_mixture_runner experts_;
  short_conv_runner convolutions_;
  gated_delta_runner delta_rules_;
  std::unique_ptr<device::buffer> scratch_;
  std::chrono::nanoseconds time_aside_{};
};

} // namespace paceline::cpu
