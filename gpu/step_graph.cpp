#include "gpu/step_graph.hpp"

#include <string>

namespace paceline::gpu {
namespace {

std::string of_kernel(const launch_command& launch) {
  return " of kernel " + std::to_string(static_cast<int>(launch.kernel));
}

} // namespace

step_graph::step_graph(const device_context& on) : on_(on), run_(on) {
  on_.require(on_.api.make_graph(graph_), "cudaGraphCreate");
}

step_graph::~step_graph() {
  on_.api.use(on_.index); // the owner may be on any thread
  if (executable_ != nullptr) on_.api.end_executable(executable_);
  on_.api.end_graph(graph_);
}

void step_graph::add(const copy_command& copy) {
  raw_node made = nullptr;
  on_.require(on_.api.add_copy(made, graph_, last(), copy), "cudaGraphAddMemcpyNode1D");
  nodes_.push_back(made);
  run_.end();
}

void step_graph::add(launch_command launch) {
  raw_node made = nullptr;
  launch.start = run_.start_of(launch.kernel);
  on_.require(on_.api.add_launch(made, graph_, last(), launch), "cudaGraphAddKernelNode" + of_kernel(launch));
  nodes_.push_back(made);
  run_.launched(launch.kernel);
}

void step_graph::instantiate() {
  on_.require(on_.api.make_executable(executable_, graph_),
              "cudaGraphInstantiate of " + std::to_string(nodes_.size()) + " nodes");
}

void step_graph::update(std::size_t node, const copy_command& copy) {
  on_.require(on_.api.update_copy(executable_, nodes_.at(node), copy), "cudaGraphExecMemcpyNodeSetParams1D");
}

void step_graph::launch(command_queue& queue) {
  on_.require(on_.api.launch_graph(executable_, queue.raw()),
              "cudaGraphLaunch of " + std::to_string(nodes_.size()) + " nodes");
}

} // namespace paceline::gpu
