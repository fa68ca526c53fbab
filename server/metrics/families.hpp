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

/// Writes paceline_build_info and process_*.
void write_process(exposition& out);
/// Writes counters and gauges of models, drafters, pools and actors.
void write_engine(exposition& out, const engine_snapshot& snapshot);
/// Writes the histograms of `model_metrics`.
void write_distributions(exposition& out, const std::vector<named_model_metrics>& models);
/// Writes the metrics that dashboards and bench tools read, under vLLM's names. Optional, because the names
/// contain colons, which lint tools reject.
void write_vllm_names(exposition& out, const engine_snapshot& snapshot,
                      const std::vector<named_model_metrics>& models);

} // namespace paceline::server
