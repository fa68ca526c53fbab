#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace paceline::device {

struct add_args;
struct add_normed_args;
struct attention_args;
struct chain_args;
struct choose_args;
struct chosen_run;
struct embed_args;
struct expert_mixture_args;
struct gated_matmul_args;
struct gated_delta_args;
struct gather_args;
struct glu_args;
struct kv_commit_args;
struct kv_copy_args;
struct input_norm;
struct kv_write_args;
struct matmul_args;
struct qkv_args;
struct rms_norm_args;
struct rope_args;
struct rope_table_args;
struct scatter_args;
struct short_conv_args;

/// The operations of a device, one virtual function for each op. Shapes, roundings and the reference of an op
/// are documented in its contract header beside this one (`runtime/device/op_<name>.hpp`). The default
/// implementation of an op is for devices that do not support it: it throws check_failure with the op's name,
/// which fails the calling program. Comments of single ops name other defaults.
class ops {
 public:
  virtual ~ops() = default;

  /// Name of the device and kernel level, for `inspect` and logs ("cpu/avx2").
  virtual std::string_view level() const noexcept = 0;

  /// How long programs that used this object have paused for other tenants so far, by the steady clock. A
  /// program that measures its own time subtracts this value (runtime/device/stopwatch.hpp). The value grows
  /// only within calls of ops.
  virtual std::chrono::nanoseconds time_aside() const noexcept { return {}; }

  virtual void matmul(const matmul_args& args);
  /// Default: `rms_norm`, if there is a norm, `matmul` and `glu`.
  virtual void gated_matmul(const gated_matmul_args& args);
  virtual void expert_mixture(const expert_mixture_args& args);
  virtual void embed(const embed_args& args);
  virtual void rms_norm(const rms_norm_args& args);
  /// Default: `rms_norm` and `add`.
  virtual void add_normed(const add_normed_args& args);
  virtual void rope_table(const rope_table_args& args);
  virtual void rope(const rope_args& args);
  virtual void kv_write(const kv_write_args& args);
  /// Default: `rms_norm`, `matmul`, `rms_norm` of queries and keys, `rope` and `kv_write`.
  virtual void qkv(const qkv_args& args);
  virtual void kv_copy(const kv_copy_args& args);
  virtual void attention(const attention_args& args);
  virtual void glu(const glu_args& args);
  virtual void add(const add_args& args);
  virtual void gather(const gather_args& args);
  virtual void scatter(const scatter_args& args);
  virtual void short_conv(const short_conv_args& args);
  virtual void gated_delta(const gated_delta_args& args);

  /// True if `choose` is supported. Devices support it if the host cannot read logits cheaply.
  virtual bool can_choose() const noexcept { return false; }
  /// Returns the device address of the results, one for each request, which `kv_commit` reads. Valid until
  /// the next `deliver`.
  virtual const chosen_run* choose(const choose_args& args);
  /// Default: a `kv_copy` in each layer, for devices whose memory the host can access.
  virtual void kv_commit(const kv_commit_args& args);

  /// True if `chain` is supported, that is, if the device can run many small passes as one piece of work.
  virtual bool can_chain() const noexcept { return false; }
  /// Runs a chain of passes; the chosen tokens are at `args.out` when the call returns. `pass` requests the
  /// ops of the first step. It is called at least once and only records ops; it is not needed after the call.
  /// Returns false, with nothing done, if the device cannot chain such a pass.
  virtual bool chain(const chain_args& args, const std::function<void()>& pass);

  /// Memory for intermediate values of a pass: `num_values` floats of the device with unspecified contents,
  /// aligned to 64 bytes. Valid until the next call or the end of the program. It is reused, so passes of one
  /// size allocate once.
  virtual std::span<float> scratch(std::size_t num_values);

  /// Where an op must write values that the host will read at `host`: `host` itself on a host device,
  /// otherwise device memory from which `deliver` copies it. Valid until the next `deliver` or the end of the
  /// program.
  virtual float* place_for(std::span<float> host);

  /// Returns once everything for which `place_for` was called since the last `deliver` is in host memory. The
  /// only point in a program at which the host waits for an asynchronous device. Returns immediately if there
  /// is nothing to copy.
  virtual void deliver();

 protected:
  /// Input rows of a product.
  struct input_rows {
    const float* at;
    std::size_t stride;
  };
  /// The rows `x`, after `rms_norm` if there is a norm.
  input_rows normed(const input_norm& norm, const float* x, std::size_t x_stride, std::uint32_t num_rows,
                    std::uint32_t num_cols);

  /// Throws check_failure, which fails the calling program: this device does not support `op`.
  [[noreturn]] void not_offered(std::string_view op) const;
};

} // namespace paceline::device
