#pragma once

#include "config/load.hpp"
#include "config/node.hpp"

#include <string>
#include <vector>

namespace paceline::config {

/// Path of the option that the environment variable `name` overrides ("PACELINE_MODELS_0_KV_DTYPE":
/// "models.0.kv.dtype"); empty if it is none.
std::string path_of_variable(std::string_view name);

/// Puts the values of PACELINE_* variables over those of the file. Variables that begin like one of our
/// sections but name no option give a warning.
void overlay_variables(node& root, const environment& variables, std::vector<std::string>& errors,
                       std::vector<std::string>& warnings);

/// Puts command-line values over everything else.
void overlay_assignments(node& root, const std::vector<assignment>& assignments,
                         std::vector<std::string>& errors);

} // namespace paceline::config
