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

/// Makes equal values equal bytes, with compilers that can. With others a graph is told now and then what it
/// does already.
template <class T>
void clear_padding([[maybe_unused]] T& value) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&value);
#endif
#endif
}

/// What a program tells a queue between two points at which the host waits: a step. Commands are noted, and
/// issued together: one by one where the step is new, as one CUDA graph where one of its shape has come
/// before. The shape is what follows what: copies and their directions, kernels, their grids, blocks and
/// shared memory. All else that a command says, addresses, sizes of copies and params of kernels, may change
/// from step to step: the graph's node is given what the command says now before the graph is launched. So a
/// graph does what its commands would have done, whatever they mean. What the commands do not say, tokens,
/// positions, block tables, lies in the memory that the copies bring.
///
/// A graph is made when its shape comes for the second time. Where that fails, steps of the shape are issued
/// command by command, and the device says so (`device_context::say`), once a queue. Steps that end with
/// `finish` are timed (`device_context::clock`). Functions throw cuda_failure; a step that could not be
/// issued as a whole is over. Used by one thread.
class step_queue {
 public:
  /// Most rows of a step that becomes a graph: the work of larger ones takes longer than launching it, and
  /// prompts have too many lengths.
  static constexpr std::uint32_t max_rows = 64;
  /// Shapes that are remembered; those that have not come for the longest time go, with their graphs.
  static constexpr std::size_t max_shapes = 48;

  explicit step_queue(command_queue& queue)
      : queue_(queue), begun_(queue.on(), true), done_(queue.on(), true) {}

  const device_context& on() const noexcept { return queue_.on(); }

  /// `from` is pinned.
  void copy_in(void* to, const void* from, std::size_t num_bytes);
  /// `to` is pinned.
  void copy_out(void* to, const void* from, std::size_t num_bytes);
  /// `beside`: needs nothing of the launch before it, and is no obstacle to it.
  template <class Params>
  void launch(kernel_id kernel, const launch_shape& shape, const Params& params, bool beside = false) {
    static_assert(std::is_trivially_copyable_v<Params>);
    if (shape.blocks_x == 0 || shape.blocks_y == 0) return; // nothing to do, and no grid
    Params said = params;
    clear_padding(said);
    note({command_kind::launch, kernel, shape, nullptr, nullptr, sizeof said, 0, beside}, &said);
  }
  /// All blocks are under way at the same time. No part of a graph: the step goes on directly.
  template <class Params>
  void launch_together(kernel_id kernel, const launch_shape& shape, const Params& params) {
    static_assert(std::is_trivially_copyable_v<Params>);
    go_on_directly();
    begin();
    queue_.launch_together(kernel, shape, &params, sizeof params);
    note_launch();
  }
  /// Issued as it comes, after what has been noted: a graph has no node for it.
  void multiply(const blas_handle& blas, const blas_command& command);
  /// From now on to the end of the step commands are issued as they come, those noted first.
  void go_on_directly();

  /// Ends the step: whatever has been noted is issued.
  void issue();
  /// Ends the step, and waits until the device has done it.
  void finish();
  /// Ends the step without its commands.
  void forget() noexcept;
  /// Whether the host has waited for all that was asked for, and for what the queue itself was to wait for,
  /// since `begin_program`.
  bool is_done() const noexcept { return is_done_; }
  void begin_program() noexcept { is_done_ = false; }
  /// Makes `of`, on the device, hold `num_bytes` at least. Other memory is taken only when the device has
  /// done everything that may use the old one; what that held is lost.
  void make_room(memory& of, std::size_t num_bytes);

  enum class command_kind : std::uint8_t { copy_in, copy_out, launch };
  struct command {
    command_kind what = command_kind::copy_in;
    kernel_id kernel{};
    launch_shape shape;
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t num_bytes = 0; ///< of the copy, or of the params
    std::size_t params_at = 0; ///< in the step's `params`
    bool beside = false;       ///< the launch before it; a queue does one after the other all the same

    bool is_like(const command& other) const noexcept;
    copy_command copy() const noexcept { return {to, from, num_bytes, what == command_kind::copy_out}; }
  };
  /// Commands that belong together.
  struct step {
    std::vector<command> commands;
    std::vector<std::byte> params;

    const void* params_of(const command& launch) const noexcept { return params.data() + launch.params_at; }
    bool is_like(const step& other) const noexcept;
    /// Whether the commands numbered so, which are alike, say the same.
    bool says_the_same(std::size_t number, const step& other) const noexcept;
    launch_command launch(std::size_t number) const noexcept;
  };

  /// Ends the step. What comes next is not issued but kept for `end_recording`.
  void begin_recording();
  /// Whether memory has been taken since `begin_recording`: what has been recorded may name what is gone.
  bool has_moved() const noexcept { return has_moved_; }
  step end_recording() noexcept;

 private:
  /// A shape that has come.
  struct known_shape {
    step latest;                       ///< what the graph does, where there is one
    std::unique_ptr<step_graph> graph; ///< none until the shape comes again
    bool is_refused = false;           ///< there will be none
  };

  void note(command c, const void* params);
  void issue_noted();
  /// Before each command: of the step's first one the device notes the time, where steps are timed.
  void begin();
  /// After each command.
  void note_launch();
  /// After the step, which the device has done.
  void note_end();
  void issue_each(const step& from);
  /// The shape of `noted_`, now the newest; null if it is new.
  known_shape* find();
  void remember(step&& from);
  /// Makes or changes the graph of `known` so that it does what `noted_` says; without one on failure.
  void prepare(known_shape& known);
  static std::unique_ptr<step_graph> make_graph(const device_context& on, const step& from);
  void launch_graph(known_shape& known);
  void refuse(known_shape& known, const error& why);

  command_queue& queue_;
  event begun_, done_;
  bool is_done_ = false;
  bool has_begun_ = false, has_launched_ = false;
  std::chrono::steady_clock::time_point asked_; ///< just after `begun_` was asked for
  std::chrono::nanoseconds launching_{};
  step noted_;
  bool is_direct_ = false;
  bool is_recording_ = false;
  bool has_moved_ = false;
  std::deque<known_shape> shapes_; ///< the one that came last in front
  bool has_said_ = false;
};

} // namespace paceline::gpu
