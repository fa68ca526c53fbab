#pragma once

#include "gpu/owners.hpp"
#include "gpu/step_graph.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <type_traits>
#include <vector>

namespace paceline::gpu {

/// Zeroes the padding of `value`, so that equal values have equal bytes. Does nothing if the compiler does
/// not support it; then steps that are equal may be taken for different ones.
template <class T>
void clear_padding([[maybe_unused]] T& value) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&value);
#endif
#endif
}

/// Records the commands of programs and issues them in steps. A step consists of the commands between two
/// points at which the host waits for the device. The commands are issued one by one if the step's shape is
/// new, and as one CUDA graph if the shape has occurred before. The shape is the sequence of commands: copies
/// with their directions, and kernels with their grids, blocks, shared memory and parameters. Addresses and
/// sizes of copies may change from step to step; the graph's copies are updated before a launch. Nodes of
/// kernels are never updated (docs/decisions/0503). Data that is not part of the commands (tokens, positions,
/// block tables) is in the memory that the copies transfer.
///
/// A graph is made when its shape occurs for the second time. If that fails, steps of the shape are issued
/// command by command, and the first failure in each queue is reported (`device_context::say`). Steps that
/// end with `finish` are timed (`device_context::clock`). Functions throw cuda_failure. If `issue` or
/// `finish` throws, the step has ended, even if only a part of it was issued. Used by one thread.
class step_queue {
 public:
  /// Largest number of rows in a step that becomes a graph. In larger steps the time of launches does not
  /// matter, and prompts have too many different lengths.
  static constexpr std::uint32_t max_rows = 64;
  /// Number of remembered shapes. The least recently used shape is forgotten first, with its graph.
  static constexpr std::size_t max_shapes = 96;

  explicit step_queue(command_queue& queue)
      : queue_(queue), begun_(queue.on(), true), done_(queue.on(), true) {}

  const device_context& on() const noexcept { return queue_.on(); }

  /// `from` is pinned.
  void copy_in(void* to, const void* from, std::size_t num_bytes);
  /// `to` is pinned.
  void copy_out(void* to, const void* from, std::size_t num_bytes);
  /// `beside`: this launch does not depend on the launch before it. A chain then needs no barrier between the
  /// two; streams and graphs run them in order anyway.
  template <class Params>
  void launch(kernel_id kernel, const launch_shape& shape, const Params& params, bool beside = false) {
    static_assert(std::is_trivially_copyable_v<Params>);
    if (shape.blocks_x == 0 || shape.blocks_y == 0) return; // nothing to do, and not a valid grid
    Params said = params;
    clear_padding(said);
    note({command_kind::launch, kernel, shape, nullptr, nullptr, sizeof said, 0, beside}, &said);
  }
  /// A launch whose blocks all run at the same time. It cannot be part of a graph, so the rest of the step is
  /// issued directly.
  template <class Params>
  void launch_together(kernel_id kernel, const launch_shape& shape, const Params& params) {
    static_assert(std::is_trivially_copyable_v<Params>);
    go_on_directly();
    begin();
    queue_.launch_together(kernel, shape, &params, sizeof params);
    note_launch();
  }
  /// Issues the recorded commands, then a product of cuBLASLt: a graph has no node for such a product.
  void multiply(const blas_handle& blas, const blas_command& command);
  /// Issues the recorded commands. From now until the end of the step commands are issued directly.
  void go_on_directly();

  /// Ends the step: issues everything that was recorded.
  void issue();
  /// Ends the step, and waits until the device has completed it.
  void finish();
  /// Ends the step without issuing its commands.
  void forget() noexcept;
  /// True if the host has waited for all commands since `begin_program` and for everything that these had to
  /// wait for.
  bool is_done() const noexcept { return is_done_; }
  void begin_program() noexcept { is_done_ = false; }
  /// Ensures that `of`, in device memory, has at least `num_bytes`. If it is too small, ends the step, waits
  /// until the device has completed everything that may use the memory, and allocates new memory; the content
  /// is lost. Exception: while commands are recorded for `end_recording`, the step goes on and keeps them.
  void make_room(memory& of, std::size_t num_bytes);

  enum class command_kind : std::uint8_t { copy_in, copy_out, launch };
  struct command {
    command_kind what = command_kind::copy_in;
    kernel_id kernel{};
    launch_shape shape;
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t num_bytes = 0; ///< of the copy, or of the parameters
    std::size_t params_at = 0; ///< in the step's `params`
    bool beside = false;       ///< independent of the launch before it, as in `launch`

    /// Whether the commands agree in what belongs to a shape, apart from the contents of parameters.
    bool is_like(const command& other) const noexcept;
    /// Whether two copies have the same addresses and size.
    bool copies_the_same(const command& other) const noexcept;
    copy_command copy() const noexcept { return {to, from, num_bytes, what == command_kind::copy_out}; }
  };
  /// The commands of a step.
  struct step {
    std::vector<command> commands;
    std::vector<std::byte> params;

    const void* params_of(const command& launch) const noexcept { return params.data() + launch.params_at; }
    /// Whether the steps have the same shape.
    bool is_like(const step& other) const noexcept;
    launch_command launch(std::size_t number) const noexcept;
  };

  /// Ends the step. Later commands are kept for `end_recording` instead of being issued.
  void begin_recording();
  /// True if memory was allocated since `begin_recording`: the recorded commands may then use freed memory.
  bool has_moved() const noexcept { return has_moved_; }
  step end_recording() noexcept;

 private:
  /// A shape that has occurred.
  struct known_shape {
    step latest;                       ///< the current commands of the graph, if there is one
    std::unique_ptr<step_graph> graph; ///< null until the shape occurs again
    bool is_refused = false;           ///< making the graph failed; it is not tried again
  };

  void note(command c, const void* params);
  void issue_noted();
  /// Called before each command. Before the first command of a timed step it makes the device record the
  /// time.
  void begin();
  /// Called after each command; takes the time of the first one.
  void note_launch();
  /// Called after the step, which the device has completed.
  void note_end();
  void issue_each(const step& from);
  /// The entry for the shape of `noted_`, now the most recent one; null if the shape is new.
  known_shape* find();
  void remember(step&& from);
  /// Makes or updates the graph of `known` so that it runs `noted_`. After a failure `known` has no graph.
  void prepare(known_shape& known);
  static std::unique_ptr<step_graph> make_graph(const device_context& on, const step& from);
  void launch_graph(known_shape& known);
  void refuse(known_shape& known, const error& why);

  command_queue& queue_;
  event begun_, done_;
  bool is_done_ = false;
  bool has_begun_ = false, has_launched_ = false;
  std::chrono::steady_clock::time_point asked_; ///< just after `begun_` was requested
  std::chrono::nanoseconds launching_{};
  step noted_;
  bool is_direct_ = false;
  bool is_recording_ = false;
  bool has_moved_ = false;
  std::deque<known_shape> shapes_; ///< most recently used first
  bool has_said_ = false;
};

} // namespace paceline::gpu
