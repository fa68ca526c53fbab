#pragma once

#include "gpu/owners.hpp"

#include <cstddef>
#include <vector>

namespace paceline::gpu {

/// A CUDA graph of commands that follow one another, which can be launched as often as one likes, and changed
/// between launches: node by node, in the order in which they were added. Its functions throw cuda_failure.
/// Used by one thread.
class step_graph {
 public:
  explicit step_graph(const device_context& on);
  ~step_graph();
  step_graph(const step_graph&) = delete;
  step_graph& operator=(const step_graph&) = delete;

  // First the nodes, each behind the one before, then `instantiate`. Launches start early where they may,
  // whatever `launch` says.
  void add(const copy_command& copy);
  void add(launch_command launch);
  void instantiate();

  /// Node `node` does that from the next launch on, launches under way do what they were to do.
  void update(std::size_t node, const copy_command& copy);
  void update(std::size_t node, const launch_command& launch);
  void launch(command_queue& queue);

 private:
  raw_node last() const noexcept { return nodes_.empty() ? nullptr : nodes_.back(); }

  const device_context& on_;
  raw_graph graph_ = nullptr; ///< kept for its nodes, by which an executable is changed
  raw_executable executable_ = nullptr;
  std::vector<raw_node> nodes_;
  launch_run run_; ///< of the nodes
};

} // namespace paceline::gpu
