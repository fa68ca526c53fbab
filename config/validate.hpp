#pragma once

#include "config/apply.hpp"

namespace paceline::config {

/// Checks rules that involve several options. Each violation adds an error at the place of the option that
/// causes it. Sections in `wrong_sections` are skipped: they have wrong values, and further errors might only
/// follow from these.
void validate(const daemon_config& config, std::string_view file_name, const origins& from,
              const std::set<std::string, std::less<>>& wrong_sections, std::vector<std::string>& errors);

} // namespace paceline::config
