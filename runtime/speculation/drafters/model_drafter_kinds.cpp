#include "runtime/speculation/drafters/model_drafter.hpp"

#include "config/drafters.hpp"
#include "runtime/speculation/drafters/inner_guesses.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>
#include <utility>

// Creates drafters with a model from the configuration.

namespace paceline::speculation {

namespace {

using config::draft_vocabulary;
using config::tree_kind;
using own_model = std::shared_ptr<const model::language_model>;

expected<model_drafter_settings> settings_of(const drafter_parts& parts) {
  const config::drafter_options& options = parts.options;
  if (options.entropy_min_length < 1 || options.entropy_min_length > std::max(options.draft_length, 1U))
    return bad_option(options, "entropy_min_length = " + std::to_string(options.entropy_min_length) +
                                   ", must be 1 to draft_length (" + std::to_string(options.draft_length) +
                                   ")");
  model_drafter_settings settings{.max_tree_nodes = options.max_tree_nodes,
                                  .entropy_smoothing = options.entropy_smoothing,
                                  .entropy_min_length = options.entropy_min_length,
                                  .confidence_threshold = options.confidence_threshold,
                                  .greedy = options.token_choice == config::draft_sampling::greedy};
  settings.widens_for_beams = config::widens_for_beams(options);
  settings.shape = {.kind = options.tree == tree_kind::by_kind ? tree_kind::chain : options.tree,
                    .top_k = std::clamp(options.tree_top_k, 1U, 16U)};
  if (options.tree == tree_kind::fixed) {
    auto paths = parse_template(options.tree_paths);
    if (!paths) return bad_option(parts.options, std::move(paths).error().message());
    settings.shape.paths = *std::move(paths);
    if (settings.shape.paths.empty())
      settings.shape.paths =
          halving_template(settings.shape.top_k, options.draft_length, options.max_tree_nodes);
  }
  return settings;
}

expected<std::unique_ptr<drafter>> make(const drafter_parts& parts, const own_model& model,
                                        model_drafter_settings settings) {
  if (model == nullptr)
    return bad_option(parts.options, "kind " + parts.options.kind + " needs a model (path)");
  return std::unique_ptr<drafter>(std::make_unique<model_drafter>(
      parts.options, draft_network{.model = model}, parts.target_vocab_size, std::move(settings)));
}

/// The layers that a drafter of kind "self" runs.
expected<std::vector<std::uint32_t>> chosen_layers(const drafter_parts& parts, std::uint32_t num_layers) {
  const config::drafter_options& options = parts.options;
  std::vector<std::uint32_t> layers(num_layers);
  std::iota(layers.begin(), layers.end(), 0U);
  for (const std::string& text : options.skip_layers) {
    std::uint32_t layer = num_layers;
    const char* const end = text.data() + text.size();
    const auto [next, failed] = std::from_chars(text.data(), end, layer);
    if (failed != std::errc() || next != end || layer >= num_layers)
      return bad_option(parts.options, "skip_layers: \"" + text +
                                           "\" is not a layer of the target, which has " +
                                           std::to_string(num_layers));
    std::erase(layers, layer);
  }
  if (options.skip_layers.empty()) {
    const std::uint32_t count = options.layers == 0 ? num_layers / 2 : options.layers;
    if (count > num_layers)
      return bad_option(parts.options, "layers = " + std::to_string(count) + ", the target has " +
                                           std::to_string(num_layers));
    layers.resize(count);
  }
  if (layers.empty()) return bad_option(parts.options, "no layer of the target is left to run");
  return layers;
}

} // namespace

expected<std::unique_ptr<drafter>> make_model_drafter(const drafter_parts& parts) {
  auto settings = settings_of(parts);
  if (!settings) return std::move(settings).error();
  const draft_vocabulary vocabulary = parts.options.vocabulary;
  if (parts.own_model != nullptr && vocabulary != draft_vocabulary::same) {
    if (!parts.own_vocabulary || !parts.target_vocabulary)
      return bad_option(parts.options, "another vocabulary needs both models' tokenizers");
    const bool retokenise = vocabulary == draft_vocabulary::retokenise;
    if (retokenise && settings->shape.kind != tree_kind::chain)
      return bad_option(parts.options, "text that is tokenised anew is a chain");
    auto bridge = vocabulary_bridge::make(retokenise ? vocabulary_bridge::method::retokenise
                                                     : vocabulary_bridge::method::intersection,
                                          parts.own_vocabulary, parts.target_vocabulary,
                                          parts.own_model->info().vocab_size, parts.target_vocab_size);
    if (!bridge) return bad_option(parts.options, std::move(bridge).error().message());
    settings->bridge = *std::move(bridge);
  }
  return make(parts, parts.own_model, *std::move(settings));
}

expected<std::unique_ptr<drafter>> make_head_drafter(const drafter_parts& parts) {
  auto settings = settings_of(parts);
  if (!settings) return std::move(settings).error();
  if (parts.own_head == nullptr)
    return bad_option(parts.options, "kind " + parts.options.kind + " needs a head (path)");
  return std::unique_ptr<drafter>(std::make_unique<model_drafter>(
      parts.options, draft_network{.head = parts.own_head}, parts.target_vocab_size, *std::move(settings)));
}

expected<std::unique_ptr<drafter>> make_cascade_drafter(const drafter_parts& parts) {
  auto settings = settings_of(parts);
  if (!settings) return std::move(settings).error();
  if (settings->shape.kind != tree_kind::chain) return bad_option(parts.options, "a cascade drafts chains");
  if (parts.options.vocabulary != draft_vocabulary::same)
    return bad_option(parts.options, "a cascade needs the target's vocabulary");
  auto inner = make_inner_drafter(parts);
  if (!inner) return std::move(inner).error();
  settings->inner = *std::move(inner);
  return make(parts, parts.own_model, *std::move(settings));
}

expected<std::unique_ptr<drafter>> make_self_drafter(const drafter_parts& parts) {
  auto settings = settings_of(parts);
  if (!settings) return std::move(settings).error();
  if (parts.target == nullptr) return bad_option(parts.options, "kind self needs the target");
  auto layers = chosen_layers(parts, parts.target->info().num_layers);
  if (!layers) return std::move(layers).error();
  settings->reads_target_cells = layers->back() + 1 == layers->size(); // no layer before them is left out
  struct part {
    own_model whole; // owns the weights
    std::unique_ptr<const model::language_model> view;
  };
  auto made = std::make_shared<part>(parts.target, parts.target->part_of(*layers));
  if (made->view == nullptr)
    return bad_option(parts.options,
                      "a model of architecture " + parts.target->info().architecture + " cannot run in part");
  return make(parts, own_model(made, made->view.get()), *std::move(settings));
}

} // namespace paceline::speculation
