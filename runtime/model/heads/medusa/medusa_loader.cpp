#include "runtime/model/heads/files/head_loader.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/heads/files/head_tensors.hpp"
#include "runtime/model/heads/medusa/medusa_head.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace paceline::model {

namespace {

std::string without_prefix(std::string_view name) {
  for (const std::string_view prefix : {"medusa_heads.", "model.", "blockwise."})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return std::string(name);
}

/// Whole Medusa-2 models have their heads under this name, in addition to the weights of the base model.
constexpr std::string_view whole_model_prefix = "medusa_head.";

expected<name_of_tensor> names_in(const std::filesystem::path& directory) {
  const auto tensors = open_head_files(directory);
  if (!tensors) return tensors.error();
  if (std::ranges::none_of(*tensors,
                           [](const auto& one) { return one.name.starts_with(whole_model_prefix); }))
    return name_of_tensor(without_prefix);
  return name_of_tensor([](std::string_view name) {
    return name.starts_with(whole_model_prefix) ? std::string(name.substr(whole_model_prefix.size())) : "";
  });
}

/// Sizes of the target.
struct medusa_sizes {
  std::uint32_t hidden = 0;
  std::uint32_t vocab = 0;
};

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
  const bool has_biases = tensors.has_any("", ".bias");
  weights.heads.resize(num_heads);
  for (std::uint32_t i = 0; i < num_heads; ++i) {
    weights.heads[i].resize(num_layers);
    for (std::uint32_t j = 0; j < num_layers; ++j) {
      auto& layer = weights.heads[i][j];
      layer.linear = tensors.matrix(names.linear(i, j) + "weight", hidden, hidden);
      tensors.vector(names.linear(i, j) + "bias", hidden, layer.bias, has_biases);
    }
  }
  return num_heads;
}

/// Takes one LM head. Without `ids` it is for the target's tokens. With `ids` it has a row for each token
/// that they name, or a row for each of the target's tokens.
std::unique_ptr<const device::matrix> take_lm_head(head_tensors& tensors, const std::string& name,
                                                   const medusa_sizes& sizes, std::span<const token_id> ids) {
  const std::uint64_t rows = tensors.num_rows(name);
  if (ids.empty() && rows != sizes.vocab) {
    tensors.refuse(name, "has " + std::to_string(rows) + " rows, the target has " +
                             std::to_string(sizes.vocab) + " tokens, and there is no 'token_map'");
    return nullptr;
  }
  if (ids.empty() || rows == ids.size()) return tensors.matrix(name, rows, sizes.hidden);
  return tensors.matrix(name, sizes.vocab, sizes.hidden, ids);
}

/// The LM heads in the file: one for each head, one for all, or none.
void take_lm_heads(head_tensors& tensors, const medusa_names& names, std::uint32_t num_heads,
                   const medusa_sizes& sizes, std::span<const token_id> ids, medusa_weights& weights) {
  const auto num_layers = static_cast<std::uint32_t>(weights.heads.front().size());
  if (tensors.has("lm_head.weight")) {
    weights.lm_heads.push_back(take_lm_head(tensors, "lm_head.weight", sizes, ids));
    return;
  }
  for (std::uint32_t i = 0; i < num_heads && tensors.has(names.lm_head(i, num_layers)); ++i)
    weights.lm_heads.push_back(take_lm_head(tensors, names.lm_head(i, num_layers), sizes, ids));
  if (weights.lm_heads.size() > 1 && weights.lm_heads.size() != num_heads)
    tensors.refuse_missing(names.lm_head(static_cast<std::uint32_t>(weights.lm_heads.size()), num_layers));
}

void take_block(head_tensors& tensors, const medusa_sizes& sizes, medusa_weights& weights,
                std::uint32_t& num_heads) {
  const std::uint32_t hidden = sizes.hidden;
  const std::uint64_t inner = tensors.num_rows("hidden.weight"), outer = tensors.num_rows("output.weight");
  num_heads = static_cast<std::uint32_t>(outer / hidden);
  if (num_heads == 0 || outer % hidden != 0)
    return tensors.refuse("output.weight", "must have a multiple of " + std::to_string(hidden) + " rows");
  weights.block_in = tensors.matrix("hidden.weight", inner, hidden);
  weights.block_out = tensors.matrix("output.weight", outer, inner);
  tensors.vector("hidden.bias", inner, weights.block_in_bias, false);
  tensors.vector("output.bias", outer, weights.block_out_bias, false);
  if (tensors.has("lm_head.weight"))
    weights.lm_heads.push_back(take_lm_head(tensors, "lm_head.weight", sizes, {}));
}

/// The target's token for each draft token. An empty result means that the ids are the same. vLLM uses the
/// map only if the config says that the vocabulary is truncated.
std::vector<token_id> take_token_map(head_tensors& tensors, const json_node& config, std::uint32_t vocab) {
  std::vector<token_id> ids;
  if (!tensors.has("token_map")) return ids;
  if (const json_node truncated = config["truncated_vocab_size"];
      truncated && truncated.uint() >= config["vocab_size"].uint_or(vocab)) {
    tensors.ignore("token_map");
    return ids;
  }
  const auto refuse = [&](const std::string& rule) {
    tensors.refuse("token_map", rule);
    return std::vector<token_id>();
  };
  const std::string of_target = ", the target has " + std::to_string(vocab);
  const std::uint64_t count = tensors.num_values("token_map");
  if (count > vocab) return refuse("names " + std::to_string(count) + " tokens" + of_target);
  std::vector<bool> is_named(vocab);
  for (const std::int64_t id : tensors.integers("token_map", count)) {
    if (id < 0 || id >= vocab) return refuse("names token " + std::to_string(id) + of_target);
    if (is_named[static_cast<std::size_t>(id)]) return refuse("names token " + std::to_string(id) + " twice");
    is_named[static_cast<std::size_t>(id)] = true;
    ids.push_back(token_id{static_cast<std::int32_t>(id)});
  }
  return ids;
}

/// Checks what vLLM's config says about the tensors.
void check_config(const json_node& config, const head_tensors& tensors) {
  const bool has_biases = tensors.has_any("", ".bias");
  if (config["medusa_fc_bias"].flag_or(has_biases) != has_biases)
    config["medusa_fc_bias"].refuse(has_biases ? "is false, the layers have a 'bias'"
                                               : "is true, no layer has a 'bias'");
  if (config["original_lm_head"].flag_or(false) && tensors.has("lm_heads.1.weight"))
    config["original_lm_head"].refuse("is true, the file has 'lm_heads.1.weight'");
}

/// Takes a head of either layout; returns the number of levels.
std::uint32_t take_medusa(head_tensors& tensors, const medusa_sizes& sizes, std::span<const token_id> ids,
                          medusa_weights& weights) {
  const medusa_names names{tensors.has("0.0.linear.weight")};
  const std::uint32_t num_heads = take_layers(tensors, names, sizes.hidden, weights);
  if (num_heads == 0) {
    tensors.refuse_missing("0.0.linear.weight", ", and so is 'blocks.0.layers.0.weight'");
    return 0;
  }
  take_lm_heads(tensors, names, num_heads, sizes, ids, weights);
  if (weights.lm_heads.empty() && !ids.empty()) tensors.refuse("token_map", "needs LM heads of its tokens");
  return num_heads;
}

} // namespace

expected<std::shared_ptr<const draft_head>> load_medusa_head(const std::filesystem::path& directory,
                                                             std::shared_ptr<const transformer> target,
                                                             const head_load_options& options,
                                                             device::weight_memory& memory,
                                                             device::buffer_memory& buffers) {
  const auto object = config_if_any(directory);
  if (!object) return object.error();
  const auto name_of = names_in(directory);
  if (!name_of) return name_of.error();
  auto tensors = head_tensors::open(directory, *name_of, memory, options.format);
  if (!tensors) return std::move(tensors).error();
  const medusa_sizes sizes{target->info().hidden_size, target->info().vocab_size};
  std::optional<error> failure;
  const json_node config(*object, (directory / "config.json").string(), failure, json_node::naming::key);
  const auto scale = static_cast<float>(config["logit_scale"].setting_or(1));
  try {
    auto weights = std::make_unique<medusa_weights>();
    std::uint32_t num_heads = 0;
    std::vector<token_id> ids;
    if (tensors->has("hidden.weight")) {
      take_block(*tensors, sizes, *weights, num_heads);
    } else {
      check_config(config, *tensors);
      ids = take_token_map(*tensors, config, sizes.vocab);
      num_heads = take_medusa(*tensors, sizes, ids, *weights);
    }
    if (failure) return *failure;
    if (num_heads > head_traits::token_limit)
      return error(errc::unsupported, directory.string() + ": " + std::to_string(num_heads) +
                                          " heads, at most " + std::to_string(head_traits::token_limit));
    auto vectors = tensors->upload(buffers);
    if (!vectors) return std::move(vectors).error();
    weights->vectors = *std::move(vectors);
    return std::shared_ptr<const draft_head>(std::make_shared<medusa_head>(
        num_heads, std::move(weights), std::move(target), std::move(ids), scale));
  } catch (const std::bad_alloc&) {
    return error(errc::resource_exhausted, directory.string() + ": not enough memory");
  }
}

} // namespace paceline::model
