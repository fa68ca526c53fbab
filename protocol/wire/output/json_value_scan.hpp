#pragma once

#include <cstddef>
#include <string>

namespace paceline::wire {

/// Follows the nesting of one JSON value to its end.
class value_end {
 public:
  /// False if `c` is no longer part of the value, which only a number or a word shows.
  bool takes(char c) noexcept;
  bool complete() const noexcept { return complete_; }
  bool in_string() const noexcept { return in_string_; }

 private:
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool complete_ = false;
};

/// Appends a character as it may stand in JSON: models write line breaks into strings.
void add_json(std::string& out, char c, bool in_string);

} // namespace paceline::wire
