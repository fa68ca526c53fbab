// The calls of the emulated runtime that make, change and launch graphs.
#include "gpu/emulation/emulated_graph.hpp"
#include "gpu/emulation/emulated_runtime.hpp"
#include "gpu/emulation/outcomes.hpp"

#include <memory>
#include <variant>

namespace paceline::gpu::emulation {
namespace {

/// The object behind a raw_graph.
using owned_graph = std::shared_ptr<emulated_graph>;

} // namespace

status emulated_runtime::make_graph(raw_graph& out) {
  if (const status failure = called("cudaGraphCreate")) return failure;
  out = new owned_graph(std::make_shared<emulated_graph>());
  ++num_owned_;
  return 0;
}

status emulated_runtime::end_graph(raw_graph graph) {
  delete static_cast<owned_graph*>(graph);
  --num_owned_;
  return called("cudaGraphDestroy");
}

status emulated_runtime::add_copy(raw_node& out, raw_graph graph, raw_node after, const copy_command& copy) {
  if (const status failure = called("cudaGraphAddMemcpyNode1D")) return failure;
  if (copy.num_bytes == 0) return invalid_value;
  out = const_cast<emulated_graph::node*>((*static_cast<owned_graph*>(graph))->add(copy, after));
  return out != nullptr ? 0 : invalid_value;
}

status emulated_runtime::add_launch(raw_node& out, raw_graph graph, raw_node after,
                                    const launch_command& launch) {
  if (const status failure = called("cudaGraphAddKernelNode")) return failure;
  if (!can_launch(launch.shape)) return invalid_value;
  if (!can_start(launch.start)) return not_supported;
  out = const_cast<emulated_graph::node*>(
      (*static_cast<owned_graph*>(graph))->add(kept_launch(launch), after, launch.start));
  return out != nullptr ? 0 : invalid_value;
}

status emulated_runtime::make_executable(raw_executable& out, raw_graph graph) {
  if (const status failure = called("cudaGraphInstantiate")) return failure;
  out = new emulated_executable(*static_cast<owned_graph*>(graph));
  ++num_owned_;
  return 0;
}

status emulated_runtime::end_executable(raw_executable graph) {
  delete static_cast<emulated_executable*>(graph);
  --num_owned_;
  return called("cudaGraphExecDestroy");
}

status emulated_runtime::update_copy(raw_executable graph, raw_node node, const copy_command& copy) {
  if (const status failure = called("cudaGraphExecMemcpyNodeSetParams1D")) return failure;
  if (copy.num_bytes == 0) return invalid_value;
  return static_cast<emulated_executable*>(graph)->update(node, copy) ? 0 : invalid_value;
}

/// Runs the commands in their current form, each at its own time: a device need not run a graph in one piece.
status emulated_runtime::launch_graph(raw_executable graph, raw_stream stream) {
  if (const status failure = called("cudaGraphLaunch")) return failure;
  for (const auto& step : static_cast<const emulated_executable*>(graph)->steps()) {
    if (const auto* const copy = std::get_if<copy_command>(&step.what))
      enqueue(*copy, stream);
    else
      enqueue(std::get<kept_launch>(step.what), step.start, stream);
  }
  return 0;
}

} // namespace paceline::gpu::emulation
