#pragma once

#include "config/apply.hpp"

namespace paceline::config {

/// Checks the rules that `apply` does not check: those about several options, and about names, addresses and
/// devices. Each violation adds a message to `errors`, with the path of the option that causes it and, if
/// `from` has an entry for the option, the place where it was written. The sections in `wrong_sections` are
/// skipped: `apply` has found errors in them already, and further errors might only be consequences of those.
/// `from` and `wrong_sections` are results of `apply`.
void validate(const daemon_config& config, std::string_view file_name, const origins& from,
              const std::set<std::string, std::less<>>& wrong_sections, std::vector<std::string>& errors);

} // namespace paceline::config
