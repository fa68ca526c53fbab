#pragma once

#include <stdexcept>
#include <string>

namespace paceline {

/// A violated invariant. No input may cause one. It ends the request or worker (actor or stream) in which it
/// occurs, never the process: workers catch the exception at their outermost frame and report
/// `errc::internal`.
class check_failure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* expression, const char* file, int line, const std::string& detail);

} // namespace paceline

/// Assertion that stays enabled in release builds. `detail` is evaluated only on failure.
#define PACELINE_CHECK(condition, detail)                                                                    \
  do {                                                                                                       \
    if (!(condition)) [[unlikely]]                                                                           \
      ::paceline::fail_check(#condition, __FILE__, __LINE__, (detail));                                      \
  } while (false)
