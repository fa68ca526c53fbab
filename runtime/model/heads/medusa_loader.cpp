#include "runtime/model/heads/head_loader.hpp"

#include "runtime/model/heads/head_tensors.hpp"
#include "runtime/model/heads/medusa_head.hpp"

#include <new>
#include <string>
#include <utility>

namespace paceline::model {

namespace {

std::string without_prefix(std::string_view name) {
  for (const std::string_view prefix : {"medusa_heads.", "medusa_head.", "model.", "blockwise."})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return std::string(name);
}

/// Names of a head's tensors in one of the two layouts.
struct medusa_names {
  bool is_reference; ///< FasterDecoding's, else vLLM's

  std::string linear(std::uint32_t head, std::uint32_t layer) const {
    return is_reference ? std::to_string(head) + "." + std::to_string(layer) + ".linear."
                        : "blocks." + std::to_string(head) + ".layers." + std::to_string(layer) + ".";
  }
  std::string lm_head(std::uint32_t head, std::uint32_t num_layers) const {
    return is_reference ? std::to_string(head) + "." + std::to_string(num_layers) + ".weight"
                        : "lm_heads." + std::to_string(head) + ".weight";
  }
};

std::uint32_t take_layers(head_tensors& tensors, const medusa_names& names, std::uint32_t hidden,
                          medusa_weights& weights) {
  std::uint32_t num_heads = 0, num_layers = 0;
  while (tensors.has(names.linear(num_heads, 0) + "weight")) ++num_heads;
  while (tensors.has(names.linear(0, num_layers) + "weight")) ++num_layers;
  weights.heads.resize(num_heads);
  for (std::uint32_t i = 0; i < num_heads; ++i) {
    weights.heads[i].resize(num_layers);
    for (std::uint32_t j = 0; j < num_layers; ++j) {
      auto& layer = weights.heads[i][j];
      layer.linear = tensors.matrix(names.linear(i, j) + "weight", hidden, hidden);
      tensors.vector(names.linear(i, j) + "bias", hidden, layer.bias, false);
    }
  }
  return num_heads;
}

/// The LM heads in the file, each of as many rows as it has there: one for each head, one for all, or none.
void take_lm_heads(head_tensors& tensors, const medusa_names& names, std::uint32_t num_heads,
                   std::uint32_t hidden, medusa_weights& weights) {
  const auto num_layers = static_cast<std::uint32_t>(weights.heads.front().size());
  for (std::uint32_t i = 0; i < num_heads; ++i) {
    const std::string name = names.lm_head(i, num_layers);
    if (!tensors.has(name)) break;
    weights.lm_heads.push_back(tensors.matrix(name, tensors.num_rows(name), hidden));
    if (weights.lm_heads.back() &&
        weights.lm_heads.back()->num_rows() != weights.lm_heads.front()->num_rows())
      tensors.refuse(name, "must have as many rows as that of the first head");
  }
  if (weights.lm_heads.size() > 1 && weights.lm_heads.size() != num_heads)
    tensors.refuse(names.lm_head(static_cast<std::uint32_t>(weights.lm_heads.size()), num_layers),
                   "is missing");
}

void take_block(head_tensors& tensors, std::uint32_t hidden, medusa_weights& weights,
                std::uint32_t& num_heads) {
  const std::uint64_t inner = tensors.num_rows("hidden.weight"), outer = tensors.num_rows("output.weight");
  num_heads = static_cast<std::uint32_t>(outer / hidden);
  if (num_heads == 0 || outer % hidden != 0)
    return tensors.refuse("output.weight", "must have a multiple of " + std::to_string(hidden) + " rows");
  weights.block_in = tensors.matrix("hidden.weight", inner, hidden);
  weights.block_out = tensors.matrix("output.weight", outer, inner);
  tensors.vector("hidden.bias", inner, weights.block_in_bias, false);
  tensors.vector("output.bias", outer, weights.block_out_bias, false);
  if (tensors.has("lm_head.weight"))
    weights.lm_heads.push_back(tensors.matrix("lm_head.weight", tensors.num_rows("lm_head.weight"), hidden));
}

std::vector<token_id> take_token_map(head_tensors& tensors, std::uint64_t num_rows, std::uint32_t vocab) {
  if (!tensors.has("token_map")) {
    if (num_rows > vocab) tensors.refuse("token_map", "is missing");
    return {};
  }
  std::vector<token_id> ids;
  for (const std::int64_t id : tensors.integers("token_map", num_rows)) {
    if (id < 0 || id >= vocab) tensors.refuse("token_map", "names token " + std::to_string(id));
    ids.push_back(token_id{static_cast<std::int32_t>(id)});
  }
  return ids;
}

} // namespace

expected<std::shared_ptr<const draft_head>> load_medusa_head(const std::filesystem::path& directory,
                                                             std::shared_ptr<const transformer> target,
                                                             const head_load_options& options,
                                                             device::weight_memory& memory,
                                                             device::buffer_memory& buffers) {
  const auto scale = setting_of(directory, "logit_scale", 1);
  if (!scale) return scale.error();
  auto tensors = head_tensors::open(directory, without_prefix, memory, options.format);
  if (!tensors) return std::move(tensors).error();
  const std::uint32_t hidden = target->info().hidden_size, vocab = target->info().vocab_size;
  try {
    auto weights = std::make_unique<medusa_weights>();
    std::uint32_t num_heads = 0;
    if (tensors->has("hidden.weight")) {
      take_block(*tensors, hidden, *weights, num_heads);
    } else {
      const medusa_names names{tensors->has("0.0.linear.weight")};
      num_heads = take_layers(*tensors, names, hidden, *weights);
      if (num_heads == 0)
        return error(errc::invalid_file, directory.string() + ": no tensor \"0.0.linear.weight\" or "
                                                              "\"blocks.0.layers.0.weight\"");
      take_lm_heads(*tensors, names, num_heads, hidden, *weights);
    }
    if (num_heads > head_traits::token_limit)
      return error(errc::unsupported, directory.string() + ": " + std::to_string(num_heads) +
                                          " heads, at most " + std::to_string(head_traits::token_limit));
    const bool borrows = weights->lm_heads.empty() || !weights->lm_heads.front();
    auto ids = take_token_map(*tensors, borrows ? vocab : weights->lm_heads.front()->num_rows(), vocab);
    auto vectors = tensors->upload(buffers);
    if (!vectors) return std::move(vectors).error();
    weights->vectors = *std::move(vectors);
    return std::shared_ptr<const draft_head>(std::make_shared<medusa_head>(
        num_heads, std::move(weights), std::move(target), std::move(ids), static_cast<float>(*scale)));
  } catch (const std::bad_alloc&) {
    return error(errc::resource_exhausted, directory.string() + ": not enough memory");
  }
}

} // namespace paceline::model
