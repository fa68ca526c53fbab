#pragma once

#include <stdexcept>
#include <string>

namespace paceline {

/// A violated invariant, which no input may cause. It ends the request or the worker (actor or stream) in
/// which it occurs, never the process. Workers catch the exception at their outermost frame and report
/// `errc::internal`.
class check_failure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws the `check_failure` of PACELINE_CHECK.
[[noreturn]] void fail_check(const char* expression, const char* file, int line, const std::string& detail);

} // namespace paceline

/// Throws `check_failure` if `condition` is false, in release builds too. `detail` is evaluated only then.
#define PACELINE_CHECK(condition, detail)                                                                    \
  do {                                                                                                       \
    if (!(condition)) [[unlikely]]                                                                           \
      ::paceline::fail_check(#condition, __FILE__, __LINE__, (detail));                                      \
  } while (false)
