#pragma once

#include "gpu/runtime_api.hpp"

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <variant>
#include <vector>

namespace paceline::gpu::emulation {

/// A launch with a copy of its params, so aligned that any struct may lie there.
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

/// What a node does, as it was told last.
using graph_command = std::variant<copy_command, kept_launch>;

/// Commands, and which comes after which: that and nothing else is the order of a graph.
class emulated_graph {
 public:
  struct node {
    graph_command what;
    const node* after = nullptr;
    launch_start start = launch_start::at_end; ///< early: `after` and this are launches
  };

  /// `after` is null, or a node that has been added. Null where it is neither, or where a start is early that
  /// cannot be.
  const node* add(graph_command what, const void* after, launch_start start = launch_start::at_end);
  /// The nodes in an order that they allow: of those whose turn it may be, the one added last.
  std::vector<const node*> in_order() const;

 private:
  std::list<node> nodes_;
};

/// A graph as it was when this was made, but for updates.
class emulated_executable {
 public:
  explicit emulated_executable(const std::shared_ptr<const emulated_graph>& from);

  /// Whether `node` is one of the graph's, which is still there, and `what` something that it may do.
  bool update(const void* node, graph_command what);
  struct step {
    graph_command what;
    launch_start start = launch_start::at_end; ///< early: before the step before it has ended
  };
  /// In the order in which a launch does them.
  const std::vector<step>& steps() const noexcept { return steps_; }

 private:
  std::weak_ptr<const emulated_graph> from_;
  std::map<const void*, std::size_t> numbers_; ///< of the nodes' steps
  std::vector<step> steps_;
};

} // namespace paceline::gpu::emulation
