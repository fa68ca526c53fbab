#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::model {

/// `text` as valid UTF-8: each byte that belongs to no character becomes U+FFFD.
std::string utf8_text(std::string_view text);

/// `text` as a JSON string with its quotes, on one line. Bytes that are not valid UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// The shortest text that reads back as `value`; "null" for infinities and NaN, which JSON does not have.
std::string json_number(double value);
std::string json_number(float value);

/// The first characters of `text` (valid UTF-8) that fit into `max_bytes`, and "..." after them if any were
/// omitted.
std::string shortened(std::string_view text, std::size_t max_bytes);

/// The size in the largest binary unit that it reaches: "94.2 MiB", "512 bytes".
std::string size_text(std::uint64_t num_bytes);

} // namespace paceline::model
