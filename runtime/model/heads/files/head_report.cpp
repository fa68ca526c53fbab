#include "runtime/model/heads/files/head_report.hpp"

#include "config/drafters.hpp"
#include "runtime/base/joined.hpp"
#include "runtime/model/heads/dflash/dflash_config.hpp"
#include "runtime/model/heads/eagle/eagle_config.hpp"
#include "runtime/model/heads/files/head_files.hpp"
#include "runtime/model/heads/files/head_kind.hpp"
#include "runtime/model/loader/report/report_text.hpp"
#include "runtime/model/loader/weights/mtp_names.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::model {

namespace {

/// Facts with their values as JSON.
class fact_list {
 public:
  explicit fact_list(head_facts& to) : to_(&to) {}
  void number(std::string name, std::uint64_t value) { add(std::move(name), std::to_string(value)); }
  void flag(std::string name, bool value) { add(std::move(name), value ? "true" : "false"); }
  void text(std::string name, std::string_view value) { add(std::move(name), json_string(value)); }
  void real(std::string name, double value) { add(std::move(name), json_number(value)); }
  void layers(std::string name, std::span<const layer_index> value) {
    const auto number_of = [](layer_index layer) { return std::to_string(layer.value); };
    add(std::move(name), "[" + joined(value, ", ", number_of) + "]");
  }

 private:
  void add(std::string name, std::string value) { to_->facts.push_back({std::move(name), std::move(value)}); }
  head_facts* to_;
};

/// The tensor of the report whose name ends with `end`; null if there is none.
const tensor_report* find(const model_report& report, std::string_view end) {
  const auto found = std::ranges::find_if(
      report.tensors, [&](const tensor_report& one) { return one.name == end || one.name.ends_with(end); });
  return found == report.tensors.end() ? nullptr : &*found;
}

std::uint64_t rows_of(const tensor_report* tensor) {
  return tensor == nullptr || tensor->shape.empty() ? 0 : tensor->shape.front();
}

/// The number of existing names in the series "BEGIN 0 END", "BEGIN 1 END", ...
std::uint32_t count(const model_report& report, const std::string& begin, const std::string& end) {
  std::uint32_t number = 0;
  while (find(report, begin + std::to_string(number) + end)) ++number;
  return number;
}

/// The number of layers that have tensors. "midlayer." without a number is one layer.
std::uint32_t num_layers_of(const model_report& report) {
  const std::uint32_t numbered = std::max(count(report, "layers.", ".self_attn.k_proj.weight"),
                                          count(report, "midlayer.", ".self_attn.k_proj.weight"));
  return std::max(numbered, 1U);
}

void add_experts(fact_list facts, const expert_config& experts) {
  facts.number("experts", experts.routing.num_experts);
  facts.number("used_experts", experts.routing.num_used);
  facts.number("expert_feed_forward_size", experts.ffn_size);
  if (experts.shared_ffn_size != 0) facts.number("shared_feed_forward_size", experts.shared_ffn_size);
}

/// Adds the facts that all heads with decoder layers have. `vocab_size` is the size of the target's
/// vocabulary that the head assumes.
void add_layers(fact_list facts, const model_config& layer, std::uint32_t vocab_size,
                std::span<const layer_index> taps) {
  facts.number("layers", layer.num_layers);
  facts.number("hidden_size", layer.hidden_size);
  if (layer.num_dense_layers() != 0) facts.number("feed_forward_size", layer.ffn_size);
  if (layer.num_expert_layers() != 0) add_experts(facts, layer.experts);
  facts.number("heads", layer.num_heads);
  facts.number("kv_heads", layer.num_kv_heads);
  facts.number("head_dim", layer.head_dim);
  facts.number("context_length", layer.context_length);
  facts.real("rope_theta", layer.rope.theta);
  facts.number("vocab_size", vocab_size);
  facts.number("draft_vocab_size", layer.vocab_size);
  if (taps.empty())
    facts.text("taps", "those of the published heads, which depend on the target");
  else
    facts.layers("taps", taps);
}

void add_eagle(fact_list facts, const eagle_config& config) {
  add_layers(facts, config.layer, config.vocab_size, config.taps);
  facts.number("target_hidden_size", config.target_hidden_size);
  if (config.version == eagle_version::eagle) return;
  facts.flag("norm_before_residual", config.norm_before_residual);
  facts.flag("norm_output", config.norm_output);
  facts.flag("fc_norm", config.has_tap_norms);
  facts.flag("norm_before_fc", config.has_input_norm);
  if (config.masks != mask_rows::none) facts.number("mask_rows", config.num_mask_rows);
}

/// Adds the config of an EAGLE head or an MTP module. Without a target, these are the values in the config.
expected<void> add_config(model_report& report, const std::filesystem::path& path) {
  if (is_gguf_head(path)) {
    const auto file = gguf_file::open(path);
    if (!file) return file.error();
    const auto config = report.head.kind == "mtp" ? read_mtp_config(*file, std::nullopt, {})
                                                  : read_eagle_config(*file, std::nullopt, {});
    if (!config) return config.error();
    add_eagle(fact_list(report.head), *config);
    return {};
  }
  const auto object = config_if_any(path);
  if (!object) return object.error();
  const bool is_dart = report.head.kind == "dart", is_eagle3 = is_dart || report.head.kind == "eagle3";
  const mask_rows masks = is_dart                       ? mask_rows::attention_input
                          : find(report, "mask_hidden") ? mask_rows::feature
                                                        : mask_rows::none;
  const bool is_module = report.head.kind == "mtp";
  const eagle_tensors tensors{
      .num_layers = is_module ? 1 : num_layers_of(report),
      .masks = masks,
      .has_experts =
          is_module && std::ranges::any_of(report.tensors, is_mtp_expert_tensor, &tensor_report::name)};
  const auto config =
      read_eagle_config(*object, (path / "config.json").string(),
                        is_eagle3 ? eagle_version::eagle3 : eagle_version::eagle, tensors, std::nullopt, {});
  if (!config) return config.error();
  add_eagle(fact_list(report.head), *config);
  return {};
}

void add_block(fact_list facts, const dflash_config& config) {
  add_layers(facts, config.layer, config.vocab_size, config.taps);
  facts.number("block_size", config.block_size);
  facts.number("levels", config.num_levels());
  facts.text("alignment", config.predicts_next ? "next" : "same");
  facts.number("mask_token", static_cast<std::uint64_t>(config.mask_token.value));
  if (const auto windows = std::ranges::count(config.has_window, true); windows > 0) {
    facts.number("layers_with_a_window", static_cast<std::uint64_t>(windows));
    facts.number("sliding_window", config.window.size);
  }
  if (config.name != "dspark") return;
  constexpr std::array kinds{"none", "vanilla", "gated", "rnn"};
  facts.text("markov_head", kinds.at(static_cast<std::size_t>(config.markov)));
  facts.number("markov_rank", config.markov_rank);
  facts.flag("confidence_head", config.has_confidence);
}

dflash_tensors block_shown_by(const model_report& report) {
  const auto width_of = [](const tensor_report* tensor) {
    return tensor == nullptr || tensor->shape.empty() ? 0 : static_cast<std::uint32_t>(tensor->shape.back());
  };
  // The names in directories, in Model-Optimizer's files and in GGUF files.
  const tensor_report* confidence = nullptr;
  for (const char* const name : {"confidence_head.proj.weight", "confidence_proj.weight", "conf_proj.weight"})
    if (confidence == nullptr) confidence = find(report, name);
  return {.num_layers = std::max(count(report, "layers.", ".input_layernorm.weight"), 1U),
          .markov_rank = width_of(find(report, "markov_w1.weight")),
          .confidence_width = width_of(confidence),
          .has_embedding = find(report, "embed_tokens.weight") != nullptr};
}

/// Adds the config of a head that fills a block of slots.
expected<void> add_block_config(model_report& report, const std::filesystem::path& path) {
  const dflash_tensors tensors = block_shown_by(report);
  auto config = expected<dflash_config>(dflash_config{});
  if (is_gguf_head(path)) {
    const auto file = gguf_file::open(path);
    if (!file) return file.error();
    config = read_dflash_config(*file, report.head.kind, tensors, std::nullopt, {});
  } else {
    const auto object = config_if_any(path);
    if (!object) return object.error();
    config = read_dflash_config(*object, (path / "config.json").string(), report.head.kind, tensors,
                                std::nullopt, {});
  }
  if (!config) return config.error();
  add_block(fact_list(report.head), *config);
  return {};
}

/// Adds the levels of heads with a network for each level, and of inputs for rows of the target's pass.
void add_levels(model_report& report) {
  fact_list facts(report.head);
  const std::string& kind = report.head.kind;
  if (kind == "medusa") {
    const std::uint32_t numbered = count(report, "blocks.", ".layers.0.weight");
    facts.text("layout", numbered > 0 ? "vLLM" : "FasterDecoding");
    facts.number("levels", numbered > 0 ? numbered : count(report, "", ".0.linear.weight"));
  } else if (kind == "hydra") {
    facts.text("architecture", find(report, "prefix_embeding_layer.norm.weight") ? "prefix-mlp" : "mlp");
    facts.number("levels", std::max(count(report, "hydra_lm_head.", ".weight"),
                                    count(report, "hydra_lm_head.", ".1.weight")));
  } else if (kind == "mlp_speculator") {
    facts.number("inner_size", rows_of(find(report, "proj.0.weight")));
    facts.number("vocab_size", rows_of(find(report, "emb.0.weight")));
  } else if (kind == "blockwise") {
    facts.number("inner_size_of_all_levels", rows_of(find(report, "hidden.weight")));
  } else {
    facts.number("levels", rows_of(find(report, kind == "ppd" ? "prompt_embeddings" : "lookahead.weight")));
  }
}

void add_vocabulary(model_report& report) {
  fact_list facts(report.head);
  const auto* const map = find(report, "d2t") ? find(report, "d2t") : find(report, "token_map");
  if (map == nullptr) return facts.text("vocabulary_map", "none: the target's ids");
  facts.text("vocabulary_map",
             map->name + ": " + (map->name == "d2t" && report.format == "safetensors" ? "offsets" : "ids"));
  facts.number("vocabulary_map_tokens", rows_of(map));
}

} // namespace

expected<model_report> inspect_head(const std::filesystem::path& path) {
  const auto kind = kind_of_head(path);
  if (!kind) return kind.error();
  auto report = inspect_files(path);
  if (!report) return report;
  report->head.kind = *kind;
  const bool grows = kind->starts_with("eagle") || *kind == "mtp" || *kind == "dart";
  const bool has_block = *kind == "dflash" || *kind == "dspark";
  expected<void> read;
  if (grows)
    read = add_config(*report, path);
  else if (has_block)
    read = add_block_config(*report, path);
  else
    add_levels(*report);
  if (!read) report->problem = read.error().message();
  if (kind->starts_with("eagle") || has_block || *kind == "mlp_speculator")
    fact_list(report->head)
        .flag("own_embedding", find(*report, "embed_tokens.weight") != nullptr ||
                                   find(*report, "token_embd.weight") != nullptr ||
                                   find(*report, "emb.0.weight") != nullptr);
  add_vocabulary(*report);
  return report;
}

namespace {

/// Returns false, with the reason as the report's problem, if the head does not fit the target.
template <class Loaded>
bool add_verdict(model_report& report, const std::string& target, const expected<Loaded>& loaded) {
  fact_list facts(report.head);
  facts.text("target", target);
  facts.flag("fits", loaded.has_value());
  if (!loaded) report.problem = loaded.error().message();
  return loaded.has_value();
}

/// Adds the draft length that applies when neither the request nor the configuration sets one.
void add_draft_length(model_report& report, std::uint32_t num_levels) {
  config::drafter_options options;
  options.kind = report.head.kind;
  const auto chosen = config::with_kind_defaults(std::move(options), num_levels);
  fact_list(report.head).number("default_draft_length", chosen.draft_length);
}

} // namespace

void add_fit(model_report& report, const std::string& target,
             const expected<std::shared_ptr<const draft_head>>& loaded) {
  if (!add_verdict(report, target, loaded)) return;
  fact_list facts(report.head);
  const draft_head& head = **loaded;
  facts.layers("taps_of_target", head.taps());
  if (head.traits().max_levels < head_traits::token_limit)
    facts.number("max_levels", head.traits().max_levels);
  add_draft_length(report, head.traits().max_levels);
  facts.number("drafted_tokens", head.info().vocab_size);
  facts.number("weights_bytes", head.info().weights_bytes);
  facts.number("bytes_per_step", head.info().bytes_per_token);
  if (head.traits().has_cells) facts.number("cell_bytes", head.cell_bytes(0));
}

void add_fit(model_report& report, const std::string& target, const expected<lookahead_inputs>& loaded) {
  if (!add_verdict(report, target, loaded)) return;
  fact_list(report.head).number("max_levels", loaded->num_rows);
  add_draft_length(report, loaded->num_rows);
}

} // namespace paceline::model
