#include "runtime/model/heads/files/head_kind.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/model/heads/files/head_files.hpp"
#include "runtime/model/loader/families/family_traits.hpp"

#include <algorithm>
#include <string_view>

namespace paceline::model {

namespace {

/// True for a model whose files may have a module for multi-token prediction.
bool may_have_mtp(std::string_view arch) {
  return std::ranges::any_of(all_families(), [&](const family_traits& family) {
    return family.has_mtp_module && arch == to_string(family.arch);
  });
}

/// A module for multi-token prediction is in the file of its model, or in a file with the model's
/// architecture. llama.cpp's architecture "dflash" is also that of DSpark, which has further tensors.
expected<std::string> kind_of_gguf_head(const std::filesystem::path& path) {
  const auto file = gguf_file::open(path);
  if (!file) return file.error();
  for (const gguf_tensor& tensor : file->tensors())
    if (tensor.name.ends_with(".nextn.eh_proj.weight")) return std::string("mtp");
  const auto name = file->metadata().require_string("general.architecture");
  if (!name) return name.error();
  if (*name == "eagle3") return std::string(*name);
  if (*name == "dflash")
    return std::string(
        file->find_tensor("markov_w1.weight") || file->find_tensor("conf_proj.weight") ? "dspark" : "dflash");
  if (may_have_mtp(*name))
    return error(errc::unsupported,
                 path.string() + ": no tensor 'blk.*.nextn.eh_proj.weight': this file of architecture " +
                     quote(*name) + " has no module for multi-token prediction");
  return file->metadata().key_error("general.architecture",
                                    "is " + quote(*name) +
                                        "; draft heads are 'eagle3' and 'dflash', and models with a "
                                        "module for multi-token prediction",
                                    errc::unsupported);
}

} // namespace

expected<std::string> kind_of_head(const std::filesystem::path& path) {
  if (is_gguf_head(path)) return kind_of_gguf_head(path);
  const auto tensors = open_head_files(path);
  if (!tensors) return tensors.error();
  const auto has = [&](std::string_view end) {
    return std::ranges::any_of(*tensors, [&](const head_tensor& one) { return one.name.ends_with(end); });
  };
  /// Compares whole names, because EAGLE-3 has a norm with that name within a layer.
  const auto is_there = [&](std::string_view name) {
    return std::ranges::any_of(*tensors, [&](const head_tensor& one) {
      return one.name == name || one.name == "model." + std::string(name);
    });
  };
  if (has("mask_rep")) return std::string("dart");
  if (has("lookahead.weight")) return std::string("pass");
  if (has("prompt_embeddings")) return std::string("ppd");
  if (has("hydra_lm_head.0.weight") || has("hydra_lm_head.0.1.weight")) return std::string("hydra");
  if (has("0.0.linear.weight") || has("blocks.0.layers.0.weight")) return std::string("medusa");
  if (has("emb.0.weight") && has("proj.0.weight")) return std::string("mlp_speculator");
  if (has("hidden.weight") && has("output.weight")) return std::string("blockwise");
  for (const std::string_view module :
       {"pre_fc_norm_hidden.weight", "hidden_layernorm.weight", "hnorm.weight"})
    if (has(module)) return std::string("mtp");
  for (const std::string_view part :
       {"markov_w1.weight", "confidence_head.proj.weight", "confidence_proj.weight"})
    if (has(part)) return std::string("dspark");
  if (is_there("fc.weight") && is_there("hidden_norm.weight")) return std::string("dflash");
  if (has("fc.weight") && has("hidden_norm.weight")) return std::string("eagle3");
  if (has("fc.weight") || has("fusion_fc.weight")) return std::string("eagle2");
  return error(errc::unsupported, path.string() + ": no draft head of a known kind");
}

} // namespace paceline::model
