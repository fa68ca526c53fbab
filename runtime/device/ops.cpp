#include "runtime/device/ops.hpp"

#include "runtime/base/check.hpp"

#include <string>

namespace paceline::device {

void ops::not_offered(std::string_view op) const {
  throw check_failure("device " + std::string(level()) + " does not offer the op " + std::string(op));
}

void ops::matmul(const matmul_args&) { not_offered("matmul"); }
void ops::embed(const embed_args&) { not_offered("embed"); }

} // namespace paceline::device
