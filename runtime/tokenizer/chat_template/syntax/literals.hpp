#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/tokenizer/chat_template/python/value.hpp"

#include <optional>
#include <string>
#include <string_view>

/// Numbers and strings in a template, spelled as in Python, with "_" between digits.
namespace paceline::tokenizer::jinja {

/// End of the float (`end_of_real`) or integer (`end_of_integer`) that starts at `at`; `at` if there is none.
std::size_t end_of_real(std::string_view text, std::size_t at);
std::size_t end_of_integer(std::string_view text, std::size_t at);
double parse_real(std::string_view spelling);
/// nullopt if the number exceeds 128 bits.
std::optional<wide_int> parse_integer(std::string_view spelling);
/// The text between quotes with its escapes resolved.
expected<std::string> unescaped(std::string_view spelling);

} // namespace paceline::tokenizer::jinja
