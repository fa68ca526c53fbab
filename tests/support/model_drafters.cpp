#include "tests/support/model_drafters.hpp"

#include "tests/support/hash_block_head.hpp"
#include "tests/support/hash_head.hpp"
#include "tests/support/renamed_model.hpp"
#include "tests/support/test_drafters.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <string_view>

namespace paceline::test {

namespace {

/// Inputs of look-ahead rows. They are always right for a hash model, or never if `right` is false.
std::shared_ptr<const model::lookahead_inputs> hash_inputs(std::uint32_t num_rows, bool right,
                                                           std::uint32_t width) {
  auto made = std::make_shared<model::lookahead_inputs>();
  made->num_rows = num_rows, made->width = width;
  made->values.resize(std::size_t{num_rows} * width);
  for (std::uint32_t row = 0; row < num_rows; ++row)
    made->values[std::size_t{row} * width] = static_cast<float>(right ? row : row + num_rows);
  return made;
}

} // namespace

speculation::drafter_parts model_drafter_parts(const std::string& name, model::hash_model_config target) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  speculation::drafter_parts parts;
  parts.options = options_of(name, has("self")       ? "self"
                                   : has("cascade")  ? "cascade"
                                   : has("parallel") ? "medusa"
                                   : has("path")     ? "hydra"
                                   : has("head")     ? "eagle3"
                                   : has("pass")     ? "pass"
                                   : has("ppd")      ? "ppd"
                                                     : "model");
  parts.target_vocab_size = target.vocab_size;
  parts.options.max_tree_nodes = 12;
  parts.options.tree_top_k = 3;
  if (has("static")) parts.options.tree = config::tree_kind::fixed;
  if (has("dynamic")) parts.options.tree = config::tree_kind::dynamic;
  if (has("optimal")) parts.options.tree = config::tree_kind::optimal;
  if (has("greedy")) parts.options.token_choice = config::draft_sampling::greedy;
  if (has("pass") || has("ppd")) {
    if (has("chain")) parts.options.tree = config::tree_kind::chain;
    parts.own_inputs = hash_inputs(3, !has("other"), model::hash_model(target).info().hidden_size);
    parts.first_input = token_id{static_cast<std::int32_t>(target.vocab_size)};
    return parts;
  }
  if (has("head")) {
    if (!has("dynamic") && !has("static")) parts.options.tree = config::tree_kind::chain;
    if (has("masks")) {
      parts.own_head = std::make_shared<hash_block_head>(
          target, model::head_traits{.max_levels = 5, .is_parallel = true, .num_block_rows = 4});
      return parts;
    }
    if (has("block")) {
      const bool is_causal = has("causal");
      parts.own_head =
          std::make_shared<hash_block_head>(target, model::head_traits{.max_levels = 5,
                                                                       .is_parallel = true,
                                                                       .num_block_rows = 6,
                                                                       .block_is_causal = is_causal,
                                                                       .first_level_row = 2});
      return parts;
    }
    const auto shape = has("parallel") ? hash_head_shape::parallel
                       : has("path")   ? hash_head_shape::path
                                       : hash_head_shape::attending;
    parts.own_head = std::make_shared<hash_head>(target, has("other") ? 5 : 0, shape);
    return parts;
  }
  target.num_layers = 4;
  if (has("chain")) parts.options.tree = config::tree_kind::chain;
  if (has("self")) {
    parts.target = std::make_shared<model::hash_model>(target);
    parts.options.layers = 3;
    return parts;
  }
  if (has("other")) target.salt = 5;
  if (has("cascade")) target.memory = 2; // its text repeats, so that its own drafter finds matches
  if (!has("foreign")) {
    parts.own_model = std::make_shared<model::hash_model>(target);
    return parts;
  }
  // Another vocabulary with the same bytes, whose ids are higher by three.
  parts.options.vocabulary =
      has("text") ? config::draft_vocabulary::retokenise : config::draft_vocabulary::intersection;
  const auto vocabulary = [](auto options) {
    auto data = make_vocabulary(options);
    data.add_bos = false;
    data.add_space_prefix = false;
    return std::make_shared<const tokenizer::tokenizer>(
        tokenizer::tokenizer::from_vocabulary(std::move(data)).value());
  };
  parts.target_vocabulary = vocabulary(tiny_bpe{.control = {}});
  parts.own_vocabulary = vocabulary(tiny_spm{});
  std::vector<std::int32_t> inner(parts.own_vocabulary->size(), -1);
  for (std::uint32_t byte = 0; byte < target.vocab_size; ++byte)
    inner[byte + 3] = static_cast<std::int32_t>(byte);
  parts.own_model = std::make_shared<renamed_model>(target, std::move(inner));
  return parts;
}

} // namespace paceline::test
