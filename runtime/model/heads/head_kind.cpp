#include "runtime/model/heads/head_kind.hpp"

#include "runtime/model/loader/hf_directory.hpp"

#include <algorithm>
#include <string_view>

namespace paceline::model {

expected<std::string> kind_of_head(const std::filesystem::path& directory) {
  const auto files = open_weight_files(directory);
  if (!files) return files.error();
  const auto has = [&](std::string_view end) {
    return std::ranges::any_of(*files, [&](const safetensors_file& file) {
      return std::ranges::any_of(file.tensors(),
                                 [&](const auto& tensor) { return tensor.name.ends_with(end); });
    });
  };
  /// By its whole name: EAGLE-3's norm of that name is in a layer.
  const auto is_there = [&](std::string_view name) {
    return std::ranges::any_of(*files, [&](const safetensors_file& file) {
      return std::ranges::any_of(file.tensors(), [&](const auto& tensor) {
        return tensor.name == name || tensor.name == "model." + std::string(name);
      });
    });
  };
  if (has("mask_rep")) return std::string("dart");
  if (has("lookahead.weight")) return std::string("pass");
  if (has("prompt_embeddings")) return std::string("ppd");
  if (has("0.0.linear.weight") || has("blocks.0.layers.0.weight")) return std::string("medusa");
  if (has("hydra_lm_head.0.weight") || has("hydra_lm_head.0.1.weight")) return std::string("hydra");
  if (has("emb.0.weight") && has("proj.0.weight")) return std::string("mlp_speculator");
  if (has("hidden.weight") && has("output.weight")) return std::string("blockwise");
  for (const std::string_view module :
       {"pre_fc_norm_hidden.weight", "hidden_layernorm.weight", "hnorm.weight"})
    if (has(module)) return std::string("mtp");
  if (has("markov_head.markov_w1.weight") || has("confidence_head.proj.weight")) return std::string("dspark");
  if (is_there("fc.weight") && is_there("hidden_norm.weight")) return std::string("dflash");
  if (has("fc.weight") && has("hidden_norm.weight")) return std::string("eagle3");
  if (has("fc.weight") || has("fusion_fc.weight")) return std::string("eagle2");
  return error(errc::unsupported, directory.string() + ": no draft head of a known kind");
}

} // namespace paceline::model
