#pragma once

#include "config/load.hpp"
#include "config/node.hpp"

#include <string>
#include <vector>

namespace paceline::config {

/// Path of the option that the environment variable `name` overrides ("PACELINE_MODELS_0_KV_DTYPE":
/// "models.0.kv.dtype"); empty if it overrides none.
std::string path_of_variable(std::string_view name);

/// Overrides values of the file by those of PACELINE_* variables. A variable whose name begins with a section
/// but names no option gives a warning.
void overlay_variables(node& root, const environment& variables, std::vector<std::string>& errors,
                       std::vector<std::string>& warnings);

/// Overrides all other values by those of the command line.
void overlay_assignments(node& root, const std::vector<assignment>& assignments,
                         std::vector<std::string>& errors);

} // namespace paceline::config
