#include "runtime/tokenizer/chat_template/python/binding.hpp"

#include "runtime/tokenizer/chat_template/python/operators.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace paceline::tokenizer::jinja {

std::string_view bound_arguments::text(runtime& rt, std::size_t i, std::string_view fallback) const {
  return given(i) ? require_text(rt, values_[i], "the argument") : fallback;
}

wide_int bound_arguments::integer(runtime& rt, std::size_t i, wide_int fallback) const {
  return given(i) ? require_integer(rt, values_[i], "the argument") : fallback;
}

bool bound_arguments::flag(runtime& rt, std::size_t i, bool fallback) const {
  return given(i) ? truth(rt, values_[i]) : fallback;
}

bound_arguments bind(std::string_view function, const call_arguments& arguments,
                     std::initializer_list<std::string_view> parameters, std::size_t num_required) {
  bound_arguments bound;
  const std::string name(function);
  if (arguments.positional.size() > parameters.size())
    fail(name + "() takes at most " + std::to_string(parameters.size()) + " arguments (" +
         std::to_string(arguments.positional.size()) + " given)");
  std::copy(arguments.positional.begin(), arguments.positional.end(), bound.values_.begin());
  for (const auto& [key, v] : arguments.named) {
    const auto* found = std::find(parameters.begin(), parameters.end(), key);
    if (key.empty() || found == parameters.end())
      fail(name + "() got an unexpected keyword argument '" + std::string(key) + "'");
    const auto at = static_cast<std::size_t>(found - parameters.begin());
    if (bound.given(at)) fail(name + "() got multiple values for argument '" + std::string(key) + "'");
    bound.values_[at] = v;
  }
  for (std::size_t i = 0; i < num_required; ++i)
    if (!bound.given(i)) fail(name + "() is missing an argument");
  return bound;
}

std::int64_t clamp_to_int64(wide_int number) noexcept {
  using limits = std::numeric_limits<std::int64_t>;
  if (number > limits::max()) return limits::max();
  if (number < limits::min()) return limits::min();
  return static_cast<std::int64_t>(number);
}

} // namespace paceline::tokenizer::jinja
