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
struct gated_matmul_args;
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

/// The operations a device offers, one virtual function an op; each op's shapes, roundings and reference are
/// documented in its contract header beside this one (`runtime/device/op_<name>.hpp`). An op that a device
/// does not offer keeps the default, which fails the program that calls it with the op's name.
class ops {
 public:
  virtual ~ops() = default;

  /// Name of the device and kernel level, for `inspect`, logs and exactness records ("cpu/avx2").
  virtual std::string_view level() const noexcept = 0;

  /// How long programs of these ops stood aside for other tenants' so far, on the steady clock: what a
  /// program subtracts when it takes its own time (runtime/device/stopwatch.hpp). It grows within calls of
  /// ops only.
  virtual std::chrono::nanoseconds time_aside() const noexcept { return {}; }

  virtual void matmul(const matmul_args& args);
  /// By default an `rms_norm`, if there is a norm, a `matmul` and a `glu`.
  virtual void gated_matmul(const gated_matmul_args& args);
  virtual void embed(const embed_args& args);
  virtual void rms_norm(const rms_norm_args& args);
  /// By default an `rms_norm` and an `add`.
  virtual void add_normed(const add_normed_args& args);
  virtual void rope_table(const rope_table_args& args);
  virtual void rope(const rope_args& args);
  virtual void kv_write(const kv_write_args& args);
  /// By default `rms_norm`, `matmul`, `rms_norm` of queries and keys, `rope` and `kv_write`.
  virtual void qkv(const qkv_args& args);
  virtual void kv_copy(const kv_copy_args& args);
  virtual void attention(const attention_args& args);
  virtual void glu(const glu_args& args);
  virtual void add(const add_args& args);
  virtual void gather(const gather_args& args);

  /// Whether `choose` is offered: by devices whose logits are far from the host.
  virtual bool can_choose() const noexcept { return false; }
  /// Returns where the device has what was chosen, one a request, until the next `deliver`: for `kv_commit`.
  virtual const chosen_run* choose(const choose_args& args);
  /// By default a `kv_copy` in each layer, where the host reads the device's memory.
  virtual void kv_commit(const kv_commit_args& args);

  /// Whether `chain` is offered: by devices that run many passes of few rows as one piece of work.
  virtual bool can_chain() const noexcept { return false; }
  /// Carries out a chain of passes; what was chosen is at `args.out` when the call returns. `pass` asks for
  /// the ops of the first step. It is called once or more, none of which does anything by itself, and then is
  /// not needed any longer. False, and nothing has been done: such a pass is none that the device chains.
  virtual bool chain(const chain_args& args, const std::function<void()>& pass);

  /// Memory for a pass's intermediate values: `num_values` floats of the device, of unspecified contents,
  /// aligned to 64 bytes. Valid until the next call or the end of the program; kept for the next one, so that
  /// passes of one size allocate once.
  virtual std::span<float> scratch(std::size_t num_values);

  /// Where an op shall write what the host is to read at `host`: at `host` itself on a host device, else in
  /// memory of the device, from where `deliver` brings it. Good until the next `deliver` or the program's
  /// end.
  virtual float* place_for(std::span<float> host);

  /// Returns once everything that was given a place since the last call is in its host memory: the one point
  /// of a program at which the host waits for an asynchronous device. At once where nothing was.
  virtual void deliver();

 protected:
  /// Rows that products take.
  struct input_rows {
    const float* at;
    std::size_t stride;
  };
  /// The rows `x`, by `rms_norm` if there is a norm.
  input_rows normed(const input_norm& norm, const float* x, std::size_t x_stride, std::uint32_t num_rows,
                    std::uint32_t num_cols);

  /// Fails the calling program: this device does not offer `op`.
  [[noreturn]] void not_offered(std::string_view op) const;
};

} // namespace paceline::device
