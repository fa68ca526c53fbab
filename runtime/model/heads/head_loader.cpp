#include "runtime/model/heads/head_loader.hpp"

#include <utility>

namespace paceline::model {

expected<std::shared_ptr<const draft_head>>
load_draft_head(const std::string& kind, const std::filesystem::path& directory,
                std::shared_ptr<const transformer> target, const head_load_options& options,
                device::weight_memory& weights, device::buffer_memory& buffers) {
  if (kind == "eagle" || kind == "eagle2")
    return load_eagle_head(directory, eagle_version::eagle, std::move(target), options, weights, buffers);
  if (kind == "eagle3")
    return load_eagle_head(directory, eagle_version::eagle3, std::move(target), options, weights, buffers);
  if (kind == "dart") return load_dart_head(directory, std::move(target), options, weights, buffers);
  if (kind == "mtp") return load_mtp_head(directory, std::move(target), options, weights, buffers);
  if (kind == "hydra" || kind == "mlp_speculator")
    return load_chained_head(directory, kind, std::move(target), options, weights, buffers);
  if (kind == "medusa" || kind == "blockwise")
    return load_medusa_head(directory, std::move(target), options, weights, buffers);
  if (kind == "dflash" || kind == "dspark")
    return load_dflash_head(directory, kind, std::move(target), options, weights, buffers);
  return error(errc::invalid_argument, "kind " + kind + " drafts without a head");
}

} // namespace paceline::model
