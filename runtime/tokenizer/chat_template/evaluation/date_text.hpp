#pragma once

#include "runtime/tokenizer/chat_template/options.hpp"

#include <string>
#include <string_view>

namespace paceline::tokenizer::jinja {

/// datetime.strftime(format) of a time without a time zone, in the C locale.
std::string date_text(std::string_view format, const wall_time& time);

} // namespace paceline::tokenizer::jinja
