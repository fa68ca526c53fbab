#pragma once

#include "config/apply.hpp"

namespace paceline::config {

/// Rules that involve more than one option. Each broken one adds an error at the place of the option that
/// breaks it.
void validate(const daemon_config& config, std::string_view file_name, const origins& from,
              std::vector<std::string>& errors);

} // namespace paceline::config
