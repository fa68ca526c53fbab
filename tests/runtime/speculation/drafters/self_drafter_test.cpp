#include "runtime/speculation/drafters/registry.hpp"
#include "tests/support/simulated_decoding.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

namespace paceline::speculation {
namespace {

constexpr std::uint32_t vocab = 50;

drafter_parts parts_for(std::shared_ptr<const model::language_model> target) {
  drafter_parts parts{.options = test::options_of("own layers", "self"), .target_vocab_size = vocab};
  parts.target = std::move(target);
  return parts;
}

std::string refusal(const drafter_parts& parts) {
  auto made = drafter_registry::with_built_in().make(parts);
  return made ? "" : made.error().message();
}

TEST(self_drafter, runs_the_layers_that_are_asked_for) {
  const auto target =
      std::make_shared<model::hash_model>(model::hash_model_config{.vocab_size = vocab, .num_layers = 6});
  const auto layers_of = [&](const drafter_parts& parts) {
    return drafter_registry::with_built_in().make(parts).value()->own_model()->info().num_layers;
  };
  drafter_parts parts = parts_for(target);
  EXPECT_EQ(layers_of(parts), 3U) << "half of them";
  parts.options.layers = 5;
  EXPECT_EQ(layers_of(parts), 5U);
  parts.options.layers = 0;
  parts.options.skip_layers = {"1", "4"};
  EXPECT_EQ(layers_of(parts), 4U);
}

TEST(self_drafter, reads_the_targets_cells_if_its_layers_are_the_first_ones) {
  const auto target =
      std::make_shared<model::hash_model>(model::hash_model_config{.vocab_size = vocab, .num_layers = 6});
  drafter_parts parts = parts_for(target);
  const auto reads = [&] {
    return drafter_registry::with_built_in().make(parts).value()->traits().reads_target_cells;
  };
  EXPECT_TRUE(reads());
  parts.options.layers = 5;
  EXPECT_TRUE(reads());
  parts.options.layers = 0;
  parts.options.skip_layers = {"1", "4"};
  EXPECT_FALSE(reads()) << "what is behind layer 0 sees another layer's output than in the target";
  parts.options.skip_layers = {"5", "4"};
  EXPECT_TRUE(reads());
}

TEST(self_drafter, refuses_layers_that_are_not_there) {
  const auto target =
      std::make_shared<model::hash_model>(model::hash_model_config{.vocab_size = vocab, .num_layers = 2});
  drafter_parts parts = parts_for(target);
  parts.options.layers = 3;
  EXPECT_NE(refusal(parts).find("layers = 3, the target has 2"), std::string::npos);
  parts.options.layers = 0;
  for (const std::string wrong : {"2", "x", "", "1x"}) {
    parts.options.skip_layers = {wrong};
    EXPECT_NE(refusal(parts).find("\"" + wrong + "\""), std::string::npos) << wrong;
  }
  parts.options.skip_layers = {"0", "1"};
  EXPECT_NE(refusal(parts).find("no layer"), std::string::npos);
  parts.options.skip_layers = {};
  parts.target = nullptr;
  EXPECT_NE(refusal(parts).find("target"), std::string::npos);
}

TEST(self_drafter, keeps_the_target_alive_and_its_tokens_exact) {
  auto target =
      std::make_shared<model::hash_model>(model::hash_model_config{.vocab_size = vocab, .num_layers = 4});
  drafter_parts parts = parts_for(target);
  parts.options.layers = 3;
  parts.options.tree = config::tree_kind::dynamic;
  parts.options.max_tree_nodes = 10;
  const auto made = drafter_registry::with_built_in().make(parts).value();
  parts.target.reset();
  const std::weak_ptr<const model::hash_model> watch = target;
  const model::hash_model copy = *target;
  target.reset();
  EXPECT_FALSE(watch.expired());
  generation_request request;
  request.prompt = {token_id{1}, token_id{2}};
  request.sampling.seed = 3;
  request.stop.max_tokens = 60;
  const auto output = test::decode_speculatively(copy, *made, {&request, 1});
  EXPECT_EQ(output[0].tokens, test::decode_plainly(copy, request));
  EXPECT_GT(output[0].num_accepted_tokens, 30U) << "three of four contexts are the target's";
  EXPECT_GT(output[0].num_rounds, 60U / 6) << "the fourth is not";
}

} // namespace
} // namespace paceline::speculation
