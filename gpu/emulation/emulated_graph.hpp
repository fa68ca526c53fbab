#pragma once

#include "gpu/runtime_api.hpp"

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <variant>
#include <vector>

namespace paceline::gpu::emulation {

/// A launch with a copy of its parameters, aligned for any struct.
class kept_launch {
 public:
  explicit kept_launch(const launch_command& from);

  kernel_id kernel;
  launch_shape shape;
  const void* params() const noexcept { return params_.data(); }

 private:
  struct alignas(16) chunk {
    std::byte bytes[16];
  };
  std::vector<chunk> params_;
};

/// The current command of a node.
using graph_command = std::variant<copy_command, kept_launch>;

/// A CUDA graph: commands, each with at most one predecessor. No other order is defined.
class emulated_graph {
 public:
  struct node {
    graph_command what;
    const node* after = nullptr;
    launch_start start = launch_start::at_end; ///< early: `after` and this are both launches
  };

  /// `after` is null or a node of this graph. Returns null otherwise, or if an early start is not possible.
  const node* add(graph_command what, const void* after, launch_start start = launch_start::at_end);
  /// The nodes in a permitted order that differs from the order of insertion where possible: the next node is
  /// always the one that was added last among the nodes that may come next.
  std::vector<const node*> in_order() const;

 private:
  std::list<node> nodes_;
};

/// The launchable form of a graph (cudaGraphExec_t). Its copy commands can be updated.
class emulated_executable {
 public:
  explicit emulated_executable(const std::shared_ptr<const emulated_graph>& from);

  /// Returns false if `node` is not an existing node of the graph, or `copy` is not allowed for it.
  bool update(const void* node, const copy_command& copy);
  struct step {
    graph_command what;
    launch_start start = launch_start::at_end; ///< early: before the previous step has ended
  };
  /// The commands in the order in which a launch runs them.
  const std::vector<step>& steps() const noexcept { return steps_; }

 private:
  std::weak_ptr<const emulated_graph> from_;
  std::map<const void*, std::size_t> numbers_; ///< by node: index of its step
  std::vector<step> steps_;
};

} // namespace paceline::gpu::emulation
