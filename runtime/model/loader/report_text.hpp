#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::model {

/// `text` as valid UTF-8: each byte that belongs to no character becomes U+FFFD.
std::string utf8_text(std::string_view text);

/// `text` as a JSON string with its quotes, on one line, and valid for any bytes.
std::string json_string(std::string_view text);

/// The shortest text that reads back as `value`; "null" for infinities and NaN, which JSON does not have.
std::string json_number(double value);
std::string json_number(float value);

/// At most the first `max_bytes` of valid UTF-8, whole characters only, with "..." if something was omitted.
std::string shortened(std::string_view text, std::size_t max_bytes);

/// "94.2 MiB".
std::string size_text(std::uint64_t num_bytes);

} // namespace paceline::model
