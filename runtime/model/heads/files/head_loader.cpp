#include "runtime/model/heads/files/head_loader.hpp"

#include "runtime/model/heads/files/head_files.hpp"
#include "runtime/model/heads/files/head_kind.hpp"

#include <utility>

namespace paceline::model {

head_target facts_of(const transformer& target) {
  const model_info& of = target.info();
  return {of.num_layers, of.hidden_size, of.vocab_size, target.config().embedding_scale,
          target.config().arch};
}

expected<std::shared_ptr<const draft_head>>
load_draft_head(const std::string& kind, const std::filesystem::path& path,
                std::shared_ptr<const transformer> target, const head_load_options& options,
                device::weight_memory& weights, device::buffer_memory& buffers) {
  if (is_gguf_head(path)) {
    const auto in_file = kind_of_head(path);
    if (!in_file) return in_file.error();
    if (*in_file != kind)
      return error(errc::invalid_argument,
                   path.string() + ": is a head of kind " + *in_file + ", the drafter's kind is " + kind);
  }
  if (kind == "eagle" || kind == "eagle2")
    return load_eagle_head(path, eagle_version::eagle, std::move(target), options, weights, buffers);
  if (kind == "eagle3")
    return load_eagle_head(path, eagle_version::eagle3, std::move(target), options, weights, buffers);
  if (kind == "dart") return load_dart_head(path, std::move(target), options, weights, buffers);
  if (kind == "mtp") return load_mtp_head(path, std::move(target), options, weights, buffers);
  if (kind == "hydra" || kind == "mlp_speculator")
    return load_chained_head(path, kind, std::move(target), options, weights, buffers);
  if (kind == "medusa" || kind == "blockwise")
    return load_medusa_head(path, std::move(target), options, weights, buffers);
  if (kind == "dflash" || kind == "dspark")
    return load_dflash_head(path, kind, std::move(target), options, weights, buffers);
  return error(errc::invalid_argument, "kind " + kind + " drafts without a head");
}

} // namespace paceline::model
