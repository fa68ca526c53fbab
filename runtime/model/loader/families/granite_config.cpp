#include "runtime/model/loader/families/granite_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"

#include <cmath>

namespace paceline::model {
namespace {

/// True if a file's divisor of logits is in range.
constexpr bool is_divisor(double number) noexcept { return number >= 1e-6 && number <= 1e6; }
constexpr const char* divisor_rule = "must be 1e-6 to 1e6: it divides logits";

} // namespace

void read_gguf_granite(const gguf_file&, gguf_keys& keys, model_config& config) {
  const double divisor = keys.number("logit_scale");
  if (!keys.failure() && !is_divisor(divisor)) keys.refuse("logit_scale", divisor_rule);
  config.logits_scale = static_cast<float>(1 / divisor);
  // Converters of other families write 0 for "none".
  const auto factor = [&](const char* key) {
    const double number = keys.number_or(key, 0);
    return number == 0 ? 1 : static_cast<float>(number);
  };
  config.residual_scale = factor("residual_scale");
  config.embedding_scale = factor("embedding_scale");
  // The files of this family use this key to say "no rotation".
  if (!keys.flag_or("rope.scaling.finetuned", true))
    keys.refuse("rope.scaling.finetuned", "must be true: layers without rotation are not supported",
                errc::unsupported);
}

void read_hf_granite(const json_node& fields, model_config& config) {
  const double divisor = fields["logits_scaling"].setting_or(1);
  if (!is_divisor(divisor)) fields["logits_scaling"].refuse(divisor_rule);
  config.logits_scale = static_cast<float>(1 / divisor);
  config.residual_scale = static_cast<float>(fields["residual_multiplier"].setting_or(1));
  config.embedding_scale = static_cast<float>(fields["embedding_multiplier"].setting_or(1));
  config.attention_scale = static_cast<float>(fields["attention_multiplier"].setting_or(1));
}

} // namespace paceline::model
