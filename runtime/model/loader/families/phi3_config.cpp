#include "runtime/model/loader/families/phi3_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"
#include "runtime/model/loader/hugging_face/hf_rope.hpp"

namespace paceline::model {
namespace {

/// Many files state a window that is at least as long as the context, so no text exceeds it.
void set_window(std::uint32_t window, model_config& config) {
  const bool is_used = window != 0 && window < config.context_length;
  config.sliding_window = is_used ? window : 0;
  config.local_layers.assign(config.num_layers, is_used);
}

} // namespace

void read_gguf_phi3(const gguf_file&, gguf_keys& keys, model_config& config) {
  set_window(keys.uint_or("attention.sliding_window", 0), config);
}

void read_hf_phi3(const json_node& fields, model_config& config) {
  config.norm_epsilon = static_cast<float>(fields["rms_norm_eps"].setting_or(1e-5));
  config.qkv_bias = config.attention_output_bias = false; // the class has none, whatever the config says
  const json_node window = fields["sliding_window"];
  if (window && window.uint() == 0) return window.refuse("must be at least 1, or null");
  set_window(window.uint_or(0), config);
  if (config.rope.scaling.kind != rope_scaling_kind::none)
    find_hf_rope_settings(fields).refuse("must be of type 'default' or 'longrope' in this architecture",
                                         errc::unsupported);
}

} // namespace paceline::model
