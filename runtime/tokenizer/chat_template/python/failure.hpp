#pragma once

#include "runtime/base/error.hpp"

#include <string>
#include <utility>

namespace paceline::tokenizer::jinja {

/// Ends parsing or rendering, like an exception in Python. Never leaves this folder: `chat_template` converts
/// it to an `error` value. It is an exception because nearly every expression of a template can fail, at any
/// depth.
struct failure {
  errc code = errc::invalid_argument;
  std::string message;
  int line = 0; ///< 0: the interpreter's current line
};

[[noreturn]] inline void fail(std::string message) {
  throw failure{errc::invalid_argument, std::move(message), 0};
}

[[noreturn]] inline void fail_at(int line, std::string message) {
  throw failure{errc::invalid_argument, std::move(message), line};
}

/// A limit on untrusted templates was reached.
[[noreturn]] inline void fail_limit(std::string message) {
  throw failure{errc::resource_exhausted, std::move(message), 0};
}

} // namespace paceline::tokenizer::jinja
