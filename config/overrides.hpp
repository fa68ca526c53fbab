#pragma once

#include "config/load.hpp"
#include "config/node.hpp"

#include <string>
#include <vector>

namespace paceline::config {

/// Path of the option that the environment variable `name` overrides ("PACELINE_MODELS_0_KV_DTYPE":
/// "models.0.kv.dtype"); empty if it overrides none.
std::string path_of_variable(std::string_view name);

/// Overrides values of the file with the values of PACELINE_* variables. If a section of the configuration
/// follows the prefix (PACELINE_SERVER_...), but the rest of the name is not an option, there is a warning.
/// Other unknown variables are ignored.
void overlay_variables(node& root, const environment& variables, std::vector<std::string>& errors,
                       std::vector<std::string>& warnings);

/// Overrides values with the values of the command line. To be called after `overlay_variables`, because the
/// command line has precedence over the variables.
void overlay_assignments(node& root, const std::vector<assignment>& assignments,
                         std::vector<std::string>& errors);

} // namespace paceline::config
