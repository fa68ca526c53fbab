#include "tests/support/tiny_families.hpp"

namespace paceline::test {

using model::architecture;

void set_family_keys(gguf_builder& file, const tiny_model& options) {
  if (options.arch != architecture::granite) return;
  file.set_float32("granite.embedding_scale", 3);
  file.set_float32("granite.attention.scale", 0.25F);
  file.set_float32("granite.residual_scale", 0.375F);
  file.set_float32("granite.logit_scale", 0.625F);
}

std::string family_members(const tiny_model& options) {
  if (options.arch != architecture::granite) return {};
  return R"(,"embedding_multiplier":3,"attention_multiplier":0.25,"residual_multiplier":0.375,"logits_scaling":0.625)";
}

} // namespace paceline::test
