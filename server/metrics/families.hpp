#pragma once

#include "engine/snapshot.hpp"
#include "server/metrics/edge_metrics.hpp"
#include "server/metrics/exposition.hpp"

#include <string_view>
#include <vector>

namespace paceline::server {

struct named_model_metrics {
  std::string_view name;
  const model_metrics* metrics;
};

/// paceline_build_info and process_*.
void write_process(exposition& out);
/// Counters and gauges of models, drafters, pools and actors.
void write_engine(exposition& out, const engine_snapshot& snapshot);
/// Histograms seen at the edge.
void write_distributions(exposition& out, const std::vector<named_model_metrics>& models);
/// vLLM's names for what dashboards and bench tools read. They hold colons, which lint tools dislike:
/// switchable.
void write_vllm_names(exposition& out, const engine_snapshot& snapshot,
                      const std::vector<named_model_metrics>& models);

} // namespace paceline::server
