#pragma once

#include "config/engine_options.hpp"
#include "config/server_options.hpp"

namespace paceline::config {

/// The whole configuration of `paceline serve`. Defaults are those of the members' structs.
/// config/option_table.cpp has each option's path, limits and documentation.
struct daemon_config {
  server_options server;
  engine_options engine;
  metrics_options metrics;
  logging_options logging;
  shutdown_options shutdown;
};

} // namespace paceline::config
