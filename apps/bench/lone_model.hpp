#pragma once

#include "apps/commands/options.hpp"
#include "engine/device_set.hpp"
#include "runtime/model/made_up_passes.hpp"
#include "runtime/model/transformer.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace paceline::apps::bench {

/// Positions in a block of the KV storage of `lone_model` and `lone_head`.
inline constexpr std::uint32_t block_size = 32;

/// A model on a device, without an engine, and one sequence of it.
class lone_model {
 public:
  /// `choice`: the model's path, its device, and the type of its KV cells. The sequence has `num_positions`
  /// positions.
  static expected<lone_model> open(const model_choice& choice, std::uint32_t num_threads,
                                   std::uint32_t num_positions);

  const model::model_info& info() const noexcept { return runs_->info(); }
  const std::shared_ptr<const model::transformer>& model() const noexcept { return runs_; }
  device::compute_device& device() const noexcept { return *device_; }
  /// True if the device computes asynchronously and has its own clock.
  bool is_on_gpu() const noexcept { return is_on_gpu_; }

  /// Runs `work` and waits for its end.
  expected<void> run(const device::program& work) const;

  // To be called inside a program:

  /// See `model::made_up_passes::run`.
  void pass(device::ops& ops, std::uint32_t begin, std::uint32_t end) const;
  /// Computes a greedy draft of `length` tokens after the token at position `begin`. Returns true if the
  /// device did this in one launch, and false if it needed a pass of one row for each token.
  bool draft(device::ops& ops, std::uint32_t begin, std::uint32_t length) const;

  /// Time by the device's own clock so far (`device::step_times::busy`); nullopt if it has none.
  std::optional<std::chrono::nanoseconds> device_time() const;

  struct seconds {
    double device = 0; ///< by the device's own clock, or the host's if it has none
    double host = 0;
  };
  /// Runs `work` and returns the seconds that it takes by both clocks. To be called inside a program.
  template <class Work>
  seconds timed(const Work& work) const {
    const auto device_before = device_time();
    const auto before = std::chrono::steady_clock::now();
    work();
    const double host = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    const auto device_after = device_time();
    if (!device_before || !device_after || *device_before == *device_after) return {host, host};
    return {std::chrono::duration<double>(*device_after - *device_before).count(), host};
  }

 private:
  lone_model() = default;

  std::unique_ptr<device_set> devices_;
  device::compute_device* device_ = nullptr;
  bool is_on_gpu_ = false;
  std::shared_ptr<const model::transformer> runs_;
  std::unique_ptr<model::kv_storage> kv_;
  std::unique_ptr<model::made_up_passes> passes_; ///< over its one sequence
  std::unique_ptr<device::stream> stream_;        ///< destroyed first
};

} // namespace paceline::apps::bench
