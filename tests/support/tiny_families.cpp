#include "tests/support/tiny_families.hpp"

#include <string>

namespace paceline::test {

using model::architecture;

namespace {

/// Tests' texts are longer than the original context, which scores of a few positions show.
void set_mistral3_keys(gguf_builder& file) {
  file.set_string("mistral3.rope.scaling.type", "yarn");
  file.set_float32("mistral3.rope.scaling.factor", 8);
  file.set_uint32("mistral3.rope.scaling.original_context_length", 12);
  file.set_float32("mistral3.rope.scaling.yarn_beta_fast", 2);
  file.set_float32("mistral3.rope.scaling.yarn_beta_slow", 0.5F);
  file.set_float32("mistral3.rope.scaling.yarn_log_multiplier", 0.75F);
  file.set_float32("mistral3.attention.temperature_scale", 0.5F);
}

constexpr const char* mistral3_members =
    R"(,"rope_parameters":{"rope_type":"yarn","factor":8,"original_max_position_embeddings":12,"beta_fast":2,)"
    R"("beta_slow":0.5,"mscale":1,"mscale_all_dim":0.75,"llama_4_scaling_beta":0.5})";

void set_granite_keys(gguf_builder& file) {
  file.set_float32("granite.embedding_scale", 3);
  file.set_float32("granite.attention.scale", 0.25F);
  file.set_float32("granite.residual_scale", 0.375F);
  file.set_float32("granite.logit_scale", 0.625F);
}

constexpr const char* granite_members =
    R"(,"embedding_multiplier":3,"attention_multiplier":0.25,"residual_multiplier":0.375,"logits_scaling":0.625)";

} // namespace

bool is_permuted(architecture arch) {
  return arch == architecture::llama || arch == architecture::granite || arch == architecture::mistral3 ||
         arch == architecture::smollm3;
}

void set_family_keys(gguf_builder& file, const tiny_model& options) {
  if (options.arch == architecture::granite) set_granite_keys(file);
  if (options.arch == architecture::mistral3) set_mistral3_keys(file);
}

std::string family_members(const tiny_model& options) {
  if (options.arch == architecture::granite) return granite_members;
  if (options.arch == architecture::mistral3) return mistral3_members;
  return {};
}

std::string family_model_type(architecture arch) {
  switch (arch) {
  case architecture::qwen3moe:
    return "qwen3_moe";
  case architecture::mistral3:
    return "ministral3";
  case architecture::gemma3:
    return "gemma3_text";
  default:
    return std::string(to_string(arch));
  }
}

} // namespace paceline::test
