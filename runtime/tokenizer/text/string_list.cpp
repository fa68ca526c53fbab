#include "runtime/tokenizer/text/string_list.hpp"

#include "runtime/base/check.hpp"

#include <limits>

namespace paceline::tokenizer {

void string_list::reserve(std::size_t num_strings, std::size_t num_bytes) {
  ends_.reserve(num_strings);
  arena_.reserve(num_bytes);
}

void string_list::push_back(std::string_view string) {
  PACELINE_CHECK(string.size() <= std::numeric_limits<std::uint32_t>::max() - arena_.size(),
                 "strings of a list exceed 4 GiB");
  arena_.append(string);
  ends_.push_back(static_cast<std::uint32_t>(arena_.size()));
}

} // namespace paceline::tokenizer
