#pragma once

#include "runtime/cpu/kernel_level.hpp"
#include "runtime/cpu/matmul.hpp"
#include "runtime/device/ops.hpp"

#include <string>

namespace paceline::cpu {

class thread_team;

/// The ops of the host device. Calls return when the result is there. Used by one thread at a time, the
/// team's caller.
class cpu_ops final : public device::ops {
 public:
  cpu_ops(thread_team& team, kernel_level level);

  std::string_view level() const noexcept override { return name_; }

  void matmul(const device::matmul_args& args) override;
  void embed(const device::embed_args& args) override;

 private:
  thread_team& team_;
  const std::string name_;
  matmul_runner matmul_;
};

} // namespace paceline::cpu
