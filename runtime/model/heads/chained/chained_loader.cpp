#include "runtime/base/json_node.hpp"
#include "runtime/base/quote.hpp"
#include "runtime/model/heads/chained/chained_head.hpp"
#include "runtime/model/heads/files/head_loader.hpp"
#include "runtime/model/heads/files/head_tensors.hpp"

#include <cmath>
#include <new>
#include <string>
#include <utility>

namespace paceline::model {

namespace {

/// The tensors and the weights that both kinds of head are loaded with.
struct chained_parts {
  head_tensors& tensors;
  chained_weights& weights;

  /// A matrix that the weights own.
  const device::matrix* own(const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    auto made = tensors.matrix(name, rows, cols);
    if (!made) return nullptr;
    weights.matrices.push_back(std::move(made));
    return weights.matrices.back().get();
  }
};

std::string without_prefix(std::string_view name) {
  for (const std::string_view prefix : {"speculator.", "hydra_head.", "model."})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return std::string(name);
}

/// Takes the layers of Hydra's head `head`. The first layer reads all tokens so far. In a module with dropout
/// (Hydra++) the indices are odd: "1.", "3.".
void take_hydra_level(chained_parts parts, std::uint32_t head, std::uint32_t hidden, std::uint32_t vocab,
                      bool has_dropout, chained_level& level) {
  head_tensors& tensors = parts.tensors;
  const std::string mlp = "hydra_mlp." + std::to_string(head) + ".";
  const auto index = [&](std::uint32_t layer) {
    return std::to_string(has_dropout ? 2 * layer + 1 : layer) + ".";
  };
  const bool has_biases = tensors.has_any("hydra_mlp.", ".bias");
  const bool has_lm_head_biases = tensors.has_any("hydra_lm_head.", ".bias");
  std::uint32_t num_layers = 0;
  while (tensors.has(mlp + index(num_layers) + "linear.weight")) ++num_layers;
  level.linear.resize(num_layers);
  level.linear_bias.resize(num_layers);
  const std::uint64_t inputs = std::uint64_t{head + 2} * hidden;
  for (std::uint32_t j = 0; j < num_layers; ++j) {
    level.linear[j] = parts.own(mlp + index(j) + "linear.weight", hidden, j == 0 ? inputs : hidden);
    tensors.vector(mlp + index(j) + "linear.bias", hidden, level.linear_bias[j], has_biases);
  }
  level.residual = parts.own(mlp + index(0) + "res_connection.weight", hidden, inputs);
  tensors.vector(mlp + index(0) + "res_connection.bias", hidden, level.residual_bias, has_biases);
  const std::string lm_head = "hydra_lm_head." + std::to_string(head) + (has_dropout ? ".1." : ".");
  level.lm_head = parts.own(lm_head + "weight", vocab, hidden);
  tensors.vector(lm_head + "bias", vocab, level.lm_head_bias, has_lm_head_biases);
}

constexpr const char* prefix_layer = "prefix_embeding_layer."; // spelt so in the files

/// Checks the config against the tensors, and reads which of the target's states the head reads. An offset of
/// 0 is the state after the final norm. An offset of k is the output of the k-th layer before the last one.
void read_hydra_config(const json_node& fields, const head_tensors& tensors, chained_config& config) {
  const std::uint32_t num_layers = config.tap.value;
  const std::uint32_t offset = fields["hidden_state_offset"].uint_or(0);
  if (offset >= num_layers)
    fields["hidden_state_offset"].refuse("is " + std::to_string(offset) + ", the target has " +
                                         std::to_string(num_layers) + " layers");
  else if (offset > 0)
    config.tap = layer_index{num_layers - 1 - offset};
  if (!fields["grounded_heads"].flag_or(true))
    fields["grounded_heads"].refuse("is false: heads that do not read the drafted tokens are not supported",
                                    errc::unsupported);
  const std::string arch = tensors.has_any(prefix_layer, "") ? "prefix-mlp" : "mlp";
  if (const std::string said = fields["hydra_head_arch"].string_or(arch); said != arch)
    fields["hydra_head_arch"].refuse("is " + quote(said) + ", the file has the tensors of " + quote(arch));
}

void take_hydra(chained_parts parts, const transformer& target, chained_config& config) {
  head_tensors& tensors = parts.tensors;
  const std::uint32_t hidden = target.info().hidden_size, vocab = target.info().vocab_size;
  const bool has_dropout = !tensors.has("hydra_mlp.0.0.linear.weight");
  const std::string first = has_dropout ? ".1.linear.weight" : ".0.linear.weight";
  std::uint32_t num_heads = 0;
  while (tensors.has("hydra_mlp." + std::to_string(num_heads) + first)) ++num_heads;
  if (num_heads == 0) return tensors.refuse_missing("hydra_mlp.0" + first);
  if (num_heads > head_traits::token_limit)
    return tensors.refuse("hydra_mlp.64" + first, "is one head too many");
  parts.weights.levels.resize(num_heads);
  for (std::uint32_t i = 0; i < num_heads; ++i)
    take_hydra_level(parts, i, hidden, vocab, has_dropout, parts.weights.levels[i]);
  tensors.ignore("input_embed_fn.weight"); // the base model's embedding
  const std::string prefix = prefix_layer;
  if (!tensors.has_any(prefix, "")) return;
  config.layer = target.config();
  config.layer.experts = {};
  config.layer.layout =
      rope_layout::half_split; // rows in the order of such files, whatever the target's have
  if (config.layer.ffn_size == 0)
    return tensors.refuse(prefix + "norm.weight",
                          "belongs to a prefix layer, which a target of experts alone cannot have");
  if (config.layer.post_norms || config.layer.sliding_window != 0)
    return tensors.refuse(
        prefix + "norm.weight",
        "belongs to a prefix layer, which a target with windows or four norms a layer cannot have");
  if (!tensors.has(prefix + "layers.0.input_layernorm.weight"))
    tensors.refuse_missing(prefix + "layers.0.input_layernorm.weight");
  parts.weights.prefix.emplace();
  tensors.ignore(prefix + "embed_tokens.weight");
  tensors.layer(prefix + "layers.0.", config.layer, hidden, *parts.weights.prefix);
  tensors.vector(prefix + "norm.weight", hidden, parts.weights.prefix_norm);
}

/// Takes one level of an MLP speculator.
void take_level(chained_parts parts, std::uint32_t i, std::uint32_t hidden, std::uint32_t inner,
                std::uint32_t vocab) {
  chained_level& level = parts.weights.levels[i];
  const std::string at = std::to_string(i) + ".";
  level.embedding = parts.own("emb." + at + "weight", vocab, inner);
  level.linear = {parts.own("proj." + at + "weight", inner, i == 0 ? hidden : inner)};
  level.lm_head = parts.own("head." + at + "weight", vocab, inner);
  parts.tensors.vector("ln." + at + "weight", inner, level.norm);
  parts.tensors.vector("ln." + at + "bias", inner, level.norm_bias);
}

/// Takes the levels of a speculator with tied weights. All levels share the weights of the first level,
/// except for its projection. The file may hold copies of them.
void take_tied_levels(chained_parts parts, std::uint32_t hidden, std::uint32_t inner, std::uint32_t vocab) {
  std::vector<chained_level>& levels = parts.weights.levels;
  const auto ignore = [&](const std::string& copy, const std::string& of) {
    if (parts.tensors.has(copy) && !parts.tensors.ignore_copy(copy, of))
      parts.tensors.refuse(copy, "differs from " + quote(of) + ", but 'tie_weights' is true");
  };
  for (std::size_t i = 1; i < levels.size(); ++i) {
    const std::string at = "." + std::to_string(i) + ".";
    for (const char* const part : {"emb", "head", "ln"})
      ignore(part + at + "weight", part + std::string(".0.weight"));
    ignore("ln" + at + "bias", "ln.0.bias");
    if (i > 1) ignore("proj" + at + "weight", "proj.1.weight");
  }
  take_level(parts, 0, hidden, inner, vocab);
  for (std::size_t i = 1; i < levels.size(); ++i) {
    levels[i] = levels[i - 1];
    levels[i].norm = levels[i].norm_bias = nullptr; // set when the vectors are uploaded
    if (i == 1) levels[i].linear = {parts.own("proj.1.weight", inner, inner)};
  }
}

void take_speculator(chained_parts parts, const json_node& fields, const transformer& target,
                     chained_config& config) {
  head_tensors& tensors = parts.tensors;
  chained_weights& weights = parts.weights;
  const std::uint32_t hidden = target.info().hidden_size, num_levels = fields["n_predict"].uint();
  const std::uint32_t vocab = fields["vocab_size"].uint_or(target.info().vocab_size);
  const std::uint32_t inner = fields["inner_dim"].uint_or(0) != 0 ? fields["inner_dim"].uint() : hidden;
  if (fields["emb_dim"].uint_or(hidden) != hidden)
    fields["emb_dim"].refuse("is " + std::to_string(fields["emb_dim"].uint()) +
                             ", the target's hidden size is " + std::to_string(hidden));
  if (vocab > target.info().vocab_size)
    fields["vocab_size"].refuse("is " + std::to_string(vocab) + ", the target's is " +
                                std::to_string(target.info().vocab_size));
  if (num_levels == 0 || num_levels > head_traits::token_limit) fields["n_predict"].refuse("must be 1 to 64");
  if (fields.failed()) return;
  config.inner_size = inner;
  const double state_weight = std::pow(0.5, 0.5 / num_levels);
  weights.embedding_scale =
      static_cast<float>(std::sqrt((1 - state_weight * state_weight) * inner / 2) / state_weight);
  if (fields["scale_input"].flag_or(false))
    tensors.constant(hidden, static_cast<float>(1 / std::sqrt(2.0)), weights.input_norm);
  weights.levels.resize(num_levels);
  if (fields["tie_weights"].flag_or(false)) return take_tied_levels(parts, hidden, inner, vocab);
  for (std::uint32_t i = 0; i < num_levels; ++i) take_level(parts, i, hidden, inner, vocab);
}

} // namespace

expected<std::shared_ptr<const draft_head>>
load_chained_head(const std::filesystem::path& directory, const std::string& kind,
                  std::shared_ptr<const transformer> target, const head_load_options& options,
                  device::weight_memory& memory, device::buffer_memory& buffers) {
  const auto object = config_if_any(directory);
  if (!object) return object.error();
  auto tensors = head_tensors::open(directory, without_prefix, memory, options.format);
  if (!tensors) return std::move(tensors).error();
  std::optional<error> failure;
  const json_node fields(*object, (directory / "config.json").string(), failure, json_node::naming::key);
  try {
    auto weights = std::make_unique<chained_weights>();
    chained_config config;
    config.kind = kind == "hydra" ? chained_kind::hydra : chained_kind::mlp_speculator;
    config.tap = layer_index{target->info().num_layers};
    if (config.kind == chained_kind::hydra) {
      read_hydra_config(fields, *tensors, config);
      take_hydra({*tensors, *weights}, *target, config);
    } else {
      take_speculator({*tensors, *weights}, fields, *target, config);
      config.layer.norm_epsilon = 1e-6F; // of the published module
    }
    if (failure) return *failure;
    config.layer.hidden_size = target->info().hidden_size;
    auto vectors = tensors->upload(buffers);
    if (!vectors) return std::move(vectors).error();
    weights->vectors = *std::move(vectors);
    for (std::size_t i = 1; i < weights->levels.size(); ++i) // tied norms
      if (config.kind == chained_kind::mlp_speculator && weights->levels[i].norm == nullptr) {
        weights->levels[i].norm = weights->levels[i - 1].norm;
        weights->levels[i].norm_bias = weights->levels[i - 1].norm_bias;
      }
    return std::shared_ptr<const draft_head>(std::make_shared<chained_head>(
        std::move(config), std::move(weights), std::move(target), options.kv_type, buffers));
  } catch (const std::bad_alloc&) {
    return error(errc::resource_exhausted, directory.string() + ": not enough memory");
  }
}

} // namespace paceline::model
