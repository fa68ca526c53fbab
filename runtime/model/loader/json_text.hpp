#pragma once

#include "runtime/base/expected.hpp"

#include <boost/json/object.hpp>

#include <filesystem>
#include <string_view>

namespace paceline::model {

/// Parses one JSON object, called `file` in errors. Stricter than JSON: no key occurs twice in an object,
/// values nest at most 64 deep, nothing follows the object.
expected<boost::json::object> parse_json_object(std::string_view text, std::string_view file);

/// Reads and parses a JSON file that accompanies a model, of at most 64 MiB. `not_found` when there is none.
expected<boost::json::object> read_json_file(const std::filesystem::path& path);

} // namespace paceline::model
