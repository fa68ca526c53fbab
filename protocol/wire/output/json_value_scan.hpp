#pragma once

#include <cstddef>
#include <string>

namespace paceline::wire {

/// Follows the nesting of one JSON value to its end.
class value_end {
 public:
  /// Reads the next character. False if `c` is no longer part of the value; this ends a value that is a
  /// number or a literal such as true.
  bool takes(char c) noexcept;
  bool complete() const noexcept { return complete_; }
  bool in_string() const noexcept { return in_string_; }

 private:
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool complete_ = false;
};

/// Appends `c`. A control character in a string is escaped, because models write line breaks into strings.
void add_json(std::string& out, char c, bool in_string);

} // namespace paceline::wire
