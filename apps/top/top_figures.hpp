#pragma once

#include "apps/top/metric_samples.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps {

/// Figures of one drafter of a model.
struct drafter_figures {
  std::string name;
  double rounds_per_second = 0; ///< rounds that verified its draft tokens
  double drafted_per_second = 0;
  /// Accepted / drafted tokens; nullopt if it drafted nothing in the interval.
  std::optional<double> acceptance;
  std::optional<double> acceptance_so_far; ///< the same ratio since the daemon started
};

/// Blocks of a KV pool.
struct pool_figures {
  std::string name;
  std::uint64_t active = 0, cached = 0, free = 0, all = 0;
};

struct model_figures {
  std::string name;
  std::uint64_t running = 0, waiting = 0;
  double tokens_per_second = 0;
  double prompt_tokens_per_second = 0;
  double rounds_per_second = 0;
  std::optional<double> acceptance; ///< over all drafters
  std::vector<drafter_figures> drafters;
  std::vector<pool_figures> pools;
};

/// A generation that runs or waits.
struct stream_figures {
  std::string model;
  double age = 0; ///< seconds since its request arrived
  std::uint64_t prompt_tokens = 0, output_tokens = 0, rounds = 0;
};

/// The figures of a daemon over one interval.
struct top_figures {
  std::string version;
  std::string state; ///< loading, serving or draining
  double load_progress = 1;
  double uptime = 0;   ///< seconds
  double interval = 0; ///< seconds over which rates are computed
  std::uint64_t connections = 0, websockets = 0, resident_bytes = 0;
  std::uint64_t num_streams = 0;
  std::vector<model_figures> models;
  std::vector<stream_figures> streams; ///< the oldest ones
};

/// What was read from the daemon at one time.
struct top_sample {
  double time = 0; ///< seconds, of any steady clock
  double date = 0; ///< seconds since 1970
  metric_samples metrics;
  boost::json::object snapshot; ///< of /paceline/events
};

/// The figures of the interval between two samples.
top_figures figures_between(const top_sample& before, const top_sample& now);

/// Text of several lines for a terminal of `columns` columns.
std::string to_text(const top_figures& figures, const std::string& url, std::size_t columns);
/// The same as one JSON object in one line.
std::string to_json_line(const top_figures& figures, const std::string& url);

} // namespace paceline::apps
