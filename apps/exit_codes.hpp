#pragma once

#include "runtime/base/error.hpp"

#include <cstdio>

namespace paceline::apps {

/// Exit codes of `paceline`; `paceline --help` prints the same list.
enum exit_code : int {
  exit_success = 0,
  exit_failure = 1,      ///< a failure at run time
  exit_usage = 2,        ///< invalid command line
  exit_unavailable = 69, ///< the model is missing or unreadable, or the port is in use
  exit_config = 78,      ///< invalid configuration
};

/// Exit code for an error during startup. For an invalid configuration, callers use `exit_config` instead.
inline exit_code code_for(const error& e) {
  switch (e.code()) {
  case errc::not_found:
  case errc::invalid_file:
  case errc::unsupported:
  case errc::resource_exhausted:
    return exit_unavailable;
  default:
    return exit_failure;
  }
}

/// Prints an error to standard error and returns its exit code.
inline exit_code fail(const error& e) {
  std::fprintf(stderr, "paceline: %s\n", e.message().c_str());
  return code_for(e);
}

} // namespace paceline::apps
