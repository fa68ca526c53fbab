#pragma once

#include "runtime/base/expected.hpp"

#include <boost/json/value.hpp>

#include <cstddef>
#include <string_view>

namespace paceline::tokenizer {

/// Like boost::json::parse, but every floating-point number is correctly rounded, as by Python's json.loads.
/// Boost 1.81 itself converts about one in eight numbers of 16 digits or more to a neighbour of the nearest
/// double. Chat templates print all digits, so their output would differ.
///
/// `max_depth`: largest number of nested arrays and objects. Errors are errc::invalid_argument: `text` is not
/// JSON or is nested too deeply, or an integer needs more than 64 bits, which boost::json::value cannot hold.
expected<boost::json::value> parse_exact_json(std::string_view text, std::size_t max_depth = 256);

} // namespace paceline::tokenizer
