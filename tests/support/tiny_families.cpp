#include "tests/support/tiny_families.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace paceline::test {

using model::architecture;

namespace {

/// Texts of the tests are longer than the original context, so that the scores of a few positions differ.
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

/// Half of the context. With this factor the magnitude hardly enlarges scores, and so hardly enlarges their
/// roundings.
std::uint32_t phi3_original_context(const tiny_model& options) {
  return std::max(16U, options.context_length / 2);
}

std::uint32_t phi3_num_rotated(const tiny_model& options) {
  return options.head_dim < 4 ? options.head_dim : options.head_dim * 3 / 4 / 2 * 2;
}

/// Divisors that differ between pairs and between the two lists.
std::vector<float> phi3_divisors(const tiny_model& options, bool is_long) {
  std::vector<float> divisors;
  for (std::uint32_t i = 0; i < phi3_num_rotated(options) / 2; ++i)
    divisors.push_back(is_long ? 1.5F + static_cast<float>(i) : 1 + 0.125F * static_cast<float>(i));
  return divisors;
}

void set_phi3_keys(gguf_builder& file, const tiny_model& options) {
  file.set_uint32("phi3.rope.dimension_count", phi3_num_rotated(options));
  const std::uint32_t original = phi3_original_context(options);
  file.set_uint32("phi3.rope.scaling.original_context_length", original);
  file.set_uint32("phi3.attention.sliding_window", options.sliding_window);
  const double factor = static_cast<double>(options.context_length) / original;
  file.set_float32("phi3.rope.scaling.attn_factor",
                   static_cast<float>(std::sqrt(1 + std::log(factor) / std::log(original))));
  for (const bool is_long : {true, false}) {
    const auto divisors = phi3_divisors(options, is_long);
    const auto bytes = std::as_bytes(std::span(divisors));
    file.add_tensor(is_long ? "rope_factors_long.weight" : "rope_factors_short.weight",
                    device::tensor_type::f32, {divisors.size()}, {bytes.begin(), bytes.end()});
  }
}

std::string phi3_members(const tiny_model& options) {
  std::ostringstream out;
  out << R"(,"original_max_position_embeddings":)" << phi3_original_context(options)
      << R"(,"sliding_window":)" << options.sliding_window << R"(,"partial_rotary_factor":)"
      << static_cast<double>(phi3_num_rotated(options)) / options.head_dim
      << R"(,"rope_scaling":{"type":"longrope")";
  for (const bool is_long : {true, false}) {
    out << (is_long ? R"(,"long_factor":)" : R"(,"short_factor":)");
    char separator = '[';
    for (const float divisor : phi3_divisors(options, is_long)) {
      out << separator << divisor;
      separator = ',';
    }
    out << ']';
  }
  out << '}';
  return out.str();
}

/// The magnitude is not the one that follows from the factor.
void set_olmo2_keys(gguf_builder& file, const tiny_model& options) {
  file.set_uint32("olmo2.attention.sliding_window", options.sliding_window);
  file.set_uint32("olmo2.attention.sliding_window_pattern", options.sliding_pattern);
  file.set_string("olmo2.rope.scaling.type", "yarn");
  file.set_float32("olmo2.rope.scaling.factor", 8);
  file.set_uint32("olmo2.rope.scaling.original_context_length", 12);
  file.set_float32("olmo2.rope.scaling.yarn_attn_factor", 1.5F);
  file.set_float32("olmo2.rope.scaling.yarn_beta_fast", 2);
  file.set_float32("olmo2.rope.scaling.yarn_beta_slow", 0.5F);
}

/// As OLMo 3.
std::string olmo2_members(const tiny_model& options) {
  std::ostringstream out;
  out << R"(,"rope_scaling":{"rope_type":"yarn","factor":8,"original_max_position_embeddings":12,)"
      << R"("attention_factor":1.5,"beta_fast":2,"beta_slow":0.5},"sliding_window":)"
      << options.sliding_window << R"(,"layer_types":)";
  for (std::uint32_t layer = 0; layer < options.num_layers; ++layer)
    out << (layer == 0 ? '[' : ',')
        << ((layer + 1) % options.sliding_pattern != 0 ? R"("sliding_attention")" : R"("full_attention")");
  out << ']';
  return out.str();
}

} // namespace

bool is_permuted(architecture arch) {
  return arch == architecture::llama || arch == architecture::granite || arch == architecture::mistral3 ||
         arch == architecture::smollm3;
}

void set_family_keys(gguf_builder& file, const tiny_model& options) {
  if (options.arch == architecture::granite) set_granite_keys(file);
  if (options.arch == architecture::mistral3) set_mistral3_keys(file);
  if (options.arch == architecture::olmo2) set_olmo2_keys(file, options);
  if (options.arch == architecture::phi3) set_phi3_keys(file, options);
}

std::string family_members(const tiny_model& options) {
  if (options.arch == architecture::granite) return granite_members;
  if (options.arch == architecture::mistral3) return mistral3_members;
  if (options.arch == architecture::olmo2) return olmo2_members(options);
  if (options.arch == architecture::phi3) return phi3_members(options);
  return {};
}

std::string family_model_type(architecture arch) {
  switch (arch) {
  case architecture::qwen3moe:
    return "qwen3_moe";
  case architecture::mistral3:
    return "ministral3";
  case architecture::olmo2:
    return "olmo3";
  case architecture::gemma3:
    return "gemma3_text";
  default:
    return std::string(to_string(arch));
  }
}

} // namespace paceline::test
