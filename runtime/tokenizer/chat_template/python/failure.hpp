#pragma once

#include "runtime/base/error.hpp"

#include <string>
#include <utility>

namespace paceline::tokenizer::jinja {

/// Ends parsing or rendering, as an exception does in Python. It never leaves this folder: `chat_template`
/// turns it into an `error` value. An exception inside, because nearly every expression of a template can
/// fail at any depth.
struct failure {
  errc code = errc::invalid_argument;
  std::string message;
  int line = 0; ///< 0: wherever the interpreter stands
};

[[noreturn]] inline void fail(std::string message) {
  throw failure{errc::invalid_argument, std::move(message), 0};
}

[[noreturn]] inline void fail_at(int line, std::string message) {
  throw failure{errc::invalid_argument, std::move(message), line};
}

/// One of the limits on hostile templates was reached.
[[noreturn]] inline void fail_limit(std::string message) {
  throw failure{errc::resource_exhausted, std::move(message), 0};
}

} // namespace paceline::tokenizer::jinja
