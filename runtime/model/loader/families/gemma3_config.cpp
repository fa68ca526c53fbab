#include "runtime/model/loader/families/gemma3_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/families/local_layers.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"

#include <cmath>

namespace paceline::model {
namespace {

void set_layers(model_config& config) {
  config.post_norms = true;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
}

} // namespace

void read_gguf_gemma3(const gguf_file& file, gguf_keys& keys, model_config& config) {
  set_layers(config);
  // The 27B model divides by (hidden size / number of heads) and not by its head size, but its files do not
  // say this.
  if (config.num_layers == 62 && config.num_heads != 0)
    config.attention_scale =
        1 / std::sqrt(static_cast<float>(config.hidden_size) / static_cast<float>(config.num_heads));
  config.local_rope.theta = keys.number_or("rope.freq_base_swa", traits_of(config.arch).local_theta);
  read_gguf_local_layers(keys, file.metadata(), config);
}

void read_hf_gemma3(const json_node& fields, model_config& config) {
  set_layers(config);
  const double scalar = fields["query_pre_attn_scalar"].setting_or(256);
  config.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
}

} // namespace paceline::model
