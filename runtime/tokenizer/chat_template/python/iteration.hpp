#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <vector>

namespace paceline::tokenizer::jinja {

/// Python's iter(): iterates over the elements of a value. Elements are read when they are requested, so a
/// loop sees changes that its body makes to the list.
class cursor {
 public:
  /// Fails when `v` is not iterable.
  cursor(runtime& rt, const value& v);
  /// False at the end.
  bool next(runtime& rt, value& out);

 private:
  value source_;
  std::size_t at_ = 0;
};

bool is_iterable(const value& v) noexcept;

/// list(v), as far as the budget allows.
std::vector<value> collect(runtime& rt, const value& v);

} // namespace paceline::tokenizer::jinja
