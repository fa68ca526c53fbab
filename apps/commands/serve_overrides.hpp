#pragma once

#include "apps/commands/options.hpp"
#include "config/load.hpp"
#include "runtime/base/expected.hpp"

#include <vector>

namespace paceline::apps {

/// The flags of `serve` as overrides of its configuration; they have the highest precedence. Keys of
/// --api-key are written to a file in memory (memfd_create), which stays open so that a reload can read it
/// again. Errors name the flag.
expected<std::vector<config::assignment>> overrides_of(const serve_options& options);

} // namespace paceline::apps
