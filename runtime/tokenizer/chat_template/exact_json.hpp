#pragma once

#include "runtime/base/expected.hpp"

#include <boost/json/value.hpp>

#include <cstddef>
#include <string_view>

namespace paceline::tokenizer {

/// boost::json::parse with every number right to the last digit, as Python's json.loads has them: our Boost's
/// own conversion is one unit off in the last place for one double in eight of 16 digits or more, which a
/// template prints. Integers beyond 64 bits are refused, for a value cannot hold them.
expected<boost::json::value> parse_exact_json(std::string_view text, std::size_t max_depth = 256);

} // namespace paceline::tokenizer
