#pragma once

#include "config/load.hpp"
#include "config/node.hpp"
#include "config/option.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::config {

/// Maps the full path of an option ("models.0.name") to the place where its value was written. Options with
/// their default value have no entry.
using origins = std::map<std::string, place, std::less<>>;

/// Sets the options that `root` names in `config`. Unknown keys, wrong types and values out of range are
/// errors. Returns the sections with errors (`section_of`).
std::set<std::string, std::less<>> apply(const node& root, std::string_view file_name, daemon_config& config,
                                         origins& from, std::vector<std::string>& errors);

/// The part of the configuration that `path` belongs to: "server", "models.0", or "" for the file itself. A
/// rule about several options always concerns options of one section.
std::string_view section_of(std::string_view path);

} // namespace paceline::config
