#pragma once

#include "config/engine_options.hpp"
#include "config/server_options.hpp"

namespace paceline::config {

/// Everything `paceline serve` is told. Each member's default is that of its struct; config/option_table.cpp
/// gives each its path, limits and documentation.
struct daemon_config {
  server_options server;
  engine_options engine;
  metrics_options metrics;
  logging_options logging;
  shutdown_options shutdown;
};

} // namespace paceline::config
