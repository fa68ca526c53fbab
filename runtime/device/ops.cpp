#include "runtime/device/ops.hpp"

#include "runtime/base/check.hpp"

#include <string>

namespace paceline::device {

void ops::not_offered(std::string_view op) const {
  throw check_failure("device " + std::string(level()) + " does not offer the op " + std::string(op));
}

void ops::matmul(const matmul_args&) { not_offered("matmul"); }
void ops::embed(const embed_args&) { not_offered("embed"); }
void ops::rms_norm(const rms_norm_args&) { not_offered("rms_norm"); }
void ops::rope_table(const rope_table_args&) { not_offered("rope_table"); }
void ops::rope(const rope_args&) { not_offered("rope"); }
void ops::kv_write(const kv_write_args&) { not_offered("kv_write"); }
void ops::kv_copy(const kv_copy_args&) { not_offered("kv_copy"); }
void ops::attention(const attention_args&) { not_offered("attention"); }
void ops::glu(const glu_args&) { not_offered("glu"); }
void ops::add(const add_args&) { not_offered("add"); }
void ops::gather(const gather_args&) { not_offered("gather"); }
void ops::choose(const choose_args&) { not_offered("choose"); }
std::span<float> ops::scratch(std::size_t) { not_offered("scratch"); }
float* ops::place_for(std::span<float> host) { return host.data(); }
void ops::deliver() {}

} // namespace paceline::device
