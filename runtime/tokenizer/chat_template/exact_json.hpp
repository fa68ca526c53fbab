#pragma once

#include "runtime/base/expected.hpp"

#include <boost/json/value.hpp>

#include <cstddef>
#include <string_view>

namespace paceline::tokenizer {

/// Like boost::json::parse, but every number is correctly rounded, as by Python's json.loads. Boost's own
/// conversion is wrong by one unit in the last place for one in eight doubles of 16 digits or more, and
/// templates print these digits. Integers beyond 64 bits are refused, because boost::json::value cannot hold
/// them.
expected<boost::json::value> parse_exact_json(std::string_view text, std::size_t max_depth = 256);

} // namespace paceline::tokenizer
