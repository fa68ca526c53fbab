#pragma once

#include "gpu/owners.hpp"

#include <cstddef>
#include <vector>

namespace paceline::gpu {

/// A CUDA graph of consecutive commands. It can be launched repeatedly, and its copies can be changed between
/// launches; nodes are numbered in the order in which they were added. Functions throw cuda_failure. Used by
/// one thread.
class step_graph {
 public:
  explicit step_graph(const device_context& on);
  ~step_graph();
  step_graph(const step_graph&) = delete;
  step_graph& operator=(const step_graph&) = delete;

  // First add the nodes, in their order, then call `instantiate`. Launches start early if possible;
  // `launch.start` is not read.
  void add(const copy_command& copy);
  void add(launch_command launch);
  void instantiate();

  /// Changes node number `node`, which must be a copy, for later launches. Launches already requested do not
  /// change.
  void update(std::size_t node, const copy_command& copy);
  void launch(command_queue& queue);

 private:
  raw_node last() const noexcept { return nodes_.empty() ? nullptr : nodes_.back(); }

  const device_context& on_;
  raw_graph graph_ = nullptr; ///< kept for its nodes, which are needed to change an executable
  raw_executable executable_ = nullptr;
  std::vector<raw_node> nodes_;
  launch_run run_; ///< decides which nodes start early
};

} // namespace paceline::gpu
