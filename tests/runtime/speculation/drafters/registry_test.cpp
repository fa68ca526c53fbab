#include "runtime/speculation/drafters/registry.hpp"

#include "config/drafters.hpp"

#include "runtime/model/hash_model.hpp"
#include "tests/support/model_drafters.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

namespace paceline::speculation {
namespace {

TEST(drafter_registry, makes_every_built_in_kind) {
  const auto registry = drafter_registry::with_built_in();
  EXPECT_EQ(
      registry.kinds(),
      (std::vector<std::string>{"bigram",    "blockwise", "cascade",        "copy",   "dart",       "dflash",
                                "dspark",    "eagle",     "eagle2",         "eagle3", "forced",     "hydra",
                                "lookahead", "medusa",    "mlp_speculator", "model",  "mtp",        "nasd",
                                "ngram",     "none",      "pass",           "ppd",    "prediction", "random",
                                "self",      "suffix",    "synthetic",      "unigram"}));
  const auto own =
      std::make_shared<model::hash_model>(model::hash_model_config{.context_length = 77, .num_layers = 2});
  for (const std::string& kind : registry.kinds()) {
    if (config::drafts_with_head(kind)) continue; // needs a head: heads_test
    config::drafter_options options = test::options_of("my " + kind, kind);
    options.draft_length = 3;
    const bool has_model = kind == "model" || kind == "self" || kind == "cascade";
    auto made =
        registry.make({.options = options, .own_model = own, .target_vocab_size = 300, .target = own});
    ASSERT_TRUE(made) << kind;
    EXPECT_EQ((*made)->traits().name, "my " + kind);
    EXPECT_EQ((*made)->traits().default_draft_length, kind == "none" ? 0U : 3U);
    EXPECT_EQ((*made)->own_model() != nullptr, has_model);
    EXPECT_EQ((*made)->traits().where, has_model             ? placement::worker
                                       : kind == "lookahead" ? placement::in_pass
                                                             : placement::in_line);
    EXPECT_EQ((*made)->traits().max_context, has_model ? 77U : 0U);
    EXPECT_EQ((*made)->traits().max_text, has_model ? 77U : 0U);
    EXPECT_NE((*made)->open(request_id{1}), nullptr);
  }
}

TEST(drafter_registry, drafters_with_models_say_up_to_which_length_they_draft_for_a_text) {
  const auto longest = [](const char* name) {
    const auto made = drafter_registry::with_built_in().make(
        test::model_drafter_parts(name, {.vocab_size = 64, .context_length = 77}));
    return made ? (*made)->traits().max_text : 1;
  };
  for (const char* const with_text : {"model", "head", "head_block"}) EXPECT_EQ(longest(with_text), 77U);
  EXPECT_EQ(longest("head_path_static"), 0U) << "it reads the newest token only";
  EXPECT_EQ(longest("model_foreign"), 0U) << "it drops the beginning of a long text";
}

TEST(drafter_registry, names_the_kinds_there_are_when_asked_for_another) {
  const auto made = drafter_registry::with_built_in().make({.options = test::options_of("x", "oracle")});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), errc::invalid_argument);
  EXPECT_EQ(
      made.error().message(),
      "drafter \"x\": kind \"oracle\" is not one of bigram, blockwise, cascade, copy, dart, dflash, dspark, eagle, eagle2, eagle3, forced, hydra, lookahead, medusa, mlp_speculator, model, mtp, nasd, ngram, none, pass, ppd, prediction, random, self, suffix, synthetic, unigram");
}

TEST(drafter_registry, a_model_drafter_without_a_model_is_refused) {
  const auto made = drafter_registry::with_built_in().make({.options = test::options_of("small", "model")});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("\"small\""), std::string::npos);
}

/// The embedding API does not read YAML, and some heads tell their draft length only when they are loaded.
TEST(drafter_registry, a_least_length_beyond_the_draft_length_is_refused) {
  const auto make = [](std::uint32_t least) {
    auto parts = test::model_drafter_parts("model", {.vocab_size = 64});
    parts.options.draft_length = 3;
    parts.options.entropy_min_length = least;
    return drafter_registry::with_built_in().make(parts);
  };
  EXPECT_TRUE(make(3));
  for (const std::uint32_t least : {0U, 4U}) {
    const auto made = make(least);
    ASSERT_FALSE(made) << least;
    EXPECT_NE(made.error().message().find("entropy_min_length"), std::string::npos) << made.error().message();
  }
}

TEST(drafter_registry, takes_further_kinds) {
  auto registry = drafter_registry::with_built_in();
  registry.add("guess", [](const drafter_parts& parts) -> expected<std::unique_ptr<drafter>> {
    return test::make_scripted_drafter(parts.options.name, test::guess(parts.target_vocab_size, 1));
  });
  const auto made = registry.make({.options = test::options_of("g", "guess"), .target_vocab_size = 10});
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->traits().name, "g");
}

} // namespace
} // namespace paceline::speculation
