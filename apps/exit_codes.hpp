#pragma once

#include "runtime/base/error.hpp"

#include <cstdio>

namespace paceline::apps {

/// What `paceline` exits with; `paceline --help` prints the same list.
enum exit_code : int {
  exit_success = 0,
  exit_failure = 1,      ///< something failed while it ran
  exit_usage = 2,        ///< the command line is wrong
  exit_unavailable = 69, ///< the model is missing or unreadable, or the port is taken
  exit_config = 78,      ///< the configuration is wrong
};

/// Exit code for an error met while starting.
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

/// Says on standard error what went wrong. Returns the exit code for it.
inline exit_code fail(const error& e) {
  std::fprintf(stderr, "paceline: %s\n", e.message().c_str());
  return code_for(e);
}

} // namespace paceline::apps
