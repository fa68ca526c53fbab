#include "gpu/emulation/emulated_graph.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace paceline::gpu::emulation {

kept_launch::kept_launch(const launch_command& from)
    : kernel(from.kernel), shape(from.shape), params_(from.params_bytes / sizeof(chunk) + 1) {
  std::memcpy(params_.data(), from.params, from.params_bytes);
}

const emulated_graph::node* emulated_graph::add(graph_command what, const void* after, launch_start start) {
  const auto found = std::ranges::find_if(nodes_, [&](const node& n) { return &n == after; });
  if (after != nullptr && found == nodes_.end()) return nullptr;
  if (start == launch_start::early &&
      (after == nullptr || !std::holds_alternative<kept_launch>(found->what) ||
       !std::holds_alternative<kept_launch>(what)))
    return nullptr;
  nodes_.push_back({std::move(what), after != nullptr ? &*found : nullptr, start});
  return &nodes_.back();
}

std::vector<const emulated_graph::node*> emulated_graph::in_order() const {
  std::vector<const node*> order;
  std::set<const node*> done{nullptr};
  while (order.size() < nodes_.size()) {
    const auto next = std::find_if(nodes_.rbegin(), nodes_.rend(), [&](const node& n) {
      return !done.contains(&n) && done.contains(n.after);
    });
    done.insert(&*next); // never empty: nodes depend only on nodes that were added before
    order.push_back(&*next);
  }
  return order;
}

emulated_executable::emulated_executable(const std::shared_ptr<const emulated_graph>& from) : from_(from) {
  const emulated_graph::node* before = nullptr;
  for (const emulated_graph::node* const node : from->in_order()) {
    numbers_[node] = steps_.size();
    steps_.push_back({node->what, node->after == before ? node->start : launch_start::at_end});
    before = node;
  }
}

bool emulated_executable::update(const void* node, const copy_command& copy) {
  const auto found = numbers_.find(node);
  if (from_.expired() || found == numbers_.end()) return false;
  auto* const to = std::get_if<copy_command>(&steps_[found->second].what);
  if (to == nullptr || to->to_host != copy.to_host) return false;
  *to = copy;
  return true;
}

} // namespace paceline::gpu::emulation
