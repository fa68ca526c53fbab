#include "runtime/model/loader/families/olmo2_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/families/local_layers.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"

#include <string_view>

namespace paceline::model {
namespace {

void set_norms(model_config& config) {
  config.pre_norms = false;
  config.post_norms = true;
  config.qk_norm_of_rows = true;
}

} // namespace

void read_gguf_olmo2(const gguf_file& file, gguf_keys& keys, model_config& config) {
  set_norms(config);
  // llama.cpp's name of Hugging Face's attention_factor is yarn_attn_factor. Ollama's converter calls it
  // attn_factor, which is otherwise a factor beside YaRN's own.
  constexpr std::string_view factor = "rope.scaling.attn_factor";
  rope_scaling& scaling = config.rope.scaling;
  if (scaling.kind == rope_scaling_kind::yarn && keys.has(factor) &&
      !keys.has("rope.scaling.yarn_attn_factor"))
    scaling.magnitude = keys.number_or(factor, 1);
  config.local_rope.theta = keys.number_or("rope.freq_base_swa", config.rope.theta);
  if (keys.uint_or("attention.sliding_window", 0) != 0) read_gguf_local_layers(keys, file.metadata(), config);
}

void read_hf_olmo2(const json_node& fields, model_config& config) {
  set_norms(config);
  config.norm_epsilon = static_cast<float>(fields["rms_norm_eps"].setting_or(1e-5));
  // Without a window it would be unknown whether its layers rotate like the others.
  if (fields["model_type"].string_or("") == "olmo3" && fields["sliding_window"].is_null())
    fields["sliding_window"].refuse("must be a number");
}

} // namespace paceline::model
