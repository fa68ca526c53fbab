#pragma once

#include "config/apply.hpp"

namespace paceline::config {

/// Checks rules that involve several options. Each violation adds an error at the place of the option that
/// causes it.
void validate(const daemon_config& config, std::string_view file_name, const origins& from,
              std::vector<std::string>& errors);

} // namespace paceline::config
