#pragma once

#include "runtime/base/expected.hpp"

#include <boost/json/object.hpp>

#include <filesystem>
#include <string_view>

namespace paceline::model {

/// Parses one JSON object, called `file` in errors. Stricter than JSON: no key occurs twice in an object,
/// values nest at most 64 deep, and nothing follows the object.
expected<boost::json::object> parse_json_object(std::string_view text, std::string_view file);

/// Reads and parses a JSON file of a model directory, of at most 64 MiB. Error: `not_found` if there is none.
expected<boost::json::object> read_json_file(const std::filesystem::path& path);

} // namespace paceline::model
