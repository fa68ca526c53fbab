#pragma once

#include <utility>

namespace paceline::tokenizer::jinja {

/// Sets a variable during its lifetime and then restores the old value.
template <class T>
class scoped_value {
 public:
  scoped_value(T& variable, T temporary) : variable_(variable), old_(std::exchange(variable, temporary)) {}
  scoped_value(const scoped_value&) = delete;
  scoped_value& operator=(const scoped_value&) = delete;
  ~scoped_value() { variable_ = old_; }

 private:
  T& variable_;
  T old_;
};

} // namespace paceline::tokenizer::jinja
