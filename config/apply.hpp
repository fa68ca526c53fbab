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

/// Maps the full path of an option ("models.0.name") to the place where its value was written. Options that
/// are not written anywhere have no entry.
using origins = std::map<std::string, place, std::less<>>;

/// Sets in `config` the options that are written in `root`, and records their places in `from`. Unknown keys,
/// wrong types and values out of range each append a message with `file_name` to `errors`; an option with an
/// error keeps its value. Returns the sections (`section_of`) that have errors.
std::set<std::string, std::less<>> apply(const node& root, std::string_view file_name, daemon_config& config,
                                         origins& from, std::vector<std::string>& errors);

/// The section of `path`: its first component or, for an option of a model, the first two ("server",
/// "models.0"). Empty for an empty path, which stands for the whole file. A rule about several options
/// (`validate`) relates options of one section, except the rule that the names of models must differ.
std::string_view section_of(std::string_view path);

} // namespace paceline::config
