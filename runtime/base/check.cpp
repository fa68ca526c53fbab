#include "runtime/base/check.hpp"

namespace paceline {

void fail_check(const char* expression, const char* file, int line, const std::string& detail) {
  throw check_failure(std::string("check failed: ") + expression + " (" + file + ":" + std::to_string(line) +
                      ") " + detail);
}

} // namespace paceline
