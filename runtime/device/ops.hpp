#pragma once

#include <string_view>

namespace paceline::device {

struct embed_args;
struct matmul_args;

/// The operations a device offers, one virtual function an op; each op's shapes, roundings and reference are
/// documented in its contract header beside this one (`runtime/device/op_<name>.hpp`). An op that a device
/// does not offer keeps the default, which fails the program that calls it with the op's name.
class ops {
 public:
  virtual ~ops() = default;

  /// Name of the device and kernel level, for `inspect`, logs and exactness records ("cpu/avx2").
  virtual std::string_view level() const noexcept = 0;

  virtual void matmul(const matmul_args& args);
  virtual void embed(const embed_args& args);

 protected:
  /// Fails the calling program: this device does not offer `op`.
  [[noreturn]] void not_offered(std::string_view op) const;
};

} // namespace paceline::device
