#include "runtime/speculation/control/node_choice.hpp"

#include <algorithm>

namespace paceline::speculation {

namespace {

struct candidate {
  double reach = 0;
  std::uint32_t request = 0;
  std::uint32_t node = 0;
};

} // namespace

node_choice choose_nodes(std::span<const std::vector<double>> reach, const pass_load& load,
                         const pass_cost& cost, double margin) {
  node_choice best;
  std::vector<candidate> order;
  for (std::uint32_t request = 0; request < reach.size(); ++request) {
    best.keep.emplace_back(reach[request].size(), false);
    for (std::uint32_t node = 0; node < reach[request].size(); ++node)
      order.push_back({reach[request][node], request, node});
  }
  // Among equal nodes the earlier one comes first, because parents precede their children.
  std::ranges::stable_sort(order, [](const candidate& a, const candidate& b) {
    return a.reach != b.reach ? a.reach > b.reach : a.node < b.node;
  });
  best.tokens = load.num_requests;
  best.cost = cost.ratio(load.num_requests) + load.drafting;
  const double prompts = cost.ratio(load.num_rows) - cost.ratio(load.num_requests);
  double rate = best.tokens / best.cost * (1.0 + margin);
  double tokens = best.tokens;
  for (std::uint32_t n = 0; n < order.size(); ++n) {
    tokens += order[n].reach;
    const double with = cost.ratio(load.num_rows + n + 1) - prompts + load.drafting;
    if (tokens / with <= rate) continue;
    rate = tokens / with;
    best.num_nodes = n + 1;
    best.tokens = tokens;
    best.cost = with;
  }
  for (std::uint32_t n = 0; n < best.num_nodes; ++n) best.keep[order[n].request][order[n].node] = true;
  return best;
}

} // namespace paceline::speculation
