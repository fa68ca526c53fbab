#include "config/drafters.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace paceline::config {
namespace {

std::string names_of(const model_options& model) {
  std::string names;
  for (const auto& drafter : drafters_of(model)) names += drafter.name + "(" + drafter.kind + ") ";
  return names;
}

drafter_options named(const std::string& name, const std::string& kind) {
  drafter_options made;
  made.name = name;
  made.kind = kind;
  return made;
}

TEST(drafters_of, a_model_that_lists_none_has_those_that_need_no_model) {
  EXPECT_EQ(names_of({}), "ngram(ngram) suffix(suffix) prediction(prediction) forced(forced) ");
}

TEST(drafters_of, a_list_stands_as_it_is_but_for_what_requests_bring) {
  model_options model;
  model.drafters = {named("lookup", "ngram")};
  EXPECT_EQ(names_of(model), "lookup(ngram) prediction(prediction) forced(forced) ");
  model.drafters = {named("none", "none")};
  EXPECT_EQ(names_of(model), "none(none) prediction(prediction) forced(forced) ");
}

TEST(drafters_of, a_drafter_for_predictions_is_not_there_twice) {
  model_options model;
  model.drafters = {named("known", "prediction")};
  EXPECT_EQ(names_of(model), "known(prediction) forced(forced) ");
  model.drafters = {named("prediction", "ngram")}; // the name is taken
  EXPECT_EQ(names_of(model), "prediction(ngram) forced(forced) ");
}

TEST(with_kind_defaults, gives_each_kind_the_tree_that_it_is_known_for) {
  const auto tree_of = [](const char* kind) { return with_kind_defaults(named("d", kind)).tree; };
  EXPECT_EQ(tree_of("pass"), tree_kind::chain);
  EXPECT_EQ(tree_of("ppd"), tree_kind::fixed);
  EXPECT_EQ(tree_of("eagle2"), tree_kind::dynamic);
  EXPECT_TRUE(with_kind_defaults(named("d", "ppd")).tree_paths.empty()) << "the directory may have lists";
  EXPECT_TRUE(drafts_with_head("ppd") && drafts_with_inputs("ppd") && !drafts_with_inputs("medusa"));
}

TEST(widens_for_beams, drafters_that_make_levels_in_turn_if_no_shape_is_configured) {
  for (const char* const kind : {"model", "self", "eagle", "mtp"}) {
    auto options = with_kind_defaults(named("d", kind));
    EXPECT_TRUE(widens_for_beams(options)) << kind;
    options.tree = tree_kind::chain;
    EXPECT_FALSE(widens_for_beams(with_kind_defaults(options))) << kind;
  }
  for (const char* const kind : {"cascade", "eagle3", "dflash", "medusa", "ngram", "pass"})
    EXPECT_FALSE(widens_for_beams(with_kind_defaults(named("d", kind)))) << kind;
  auto other = named("d", "model");
  other.vocabulary = draft_vocabulary::retokenise;
  EXPECT_EQ(with_kind_defaults(other).tree, tree_kind::chain);
}

TEST(with_kind_defaults, drafts_all_levels_of_a_head_that_gives_them_and_else_five) {
  const auto length_of = [](const char* kind, std::uint32_t num_levels, std::uint32_t named_length = 0) {
    auto options = named("d", kind);
    options.draft_length = named_length;
    return with_kind_defaults(std::move(options), num_levels).draft_length;
  };
  for (const char* const kind :
       {"medusa", "blockwise", "hydra", "mlp_speculator", "dart", "dflash", "dspark", "pass", "ppd"}) {
    EXPECT_EQ(length_of(kind, 0), 0U) << kind << ": its head is not loaded";
    EXPECT_EQ(length_of(kind, 15), 15U) << kind;
    EXPECT_EQ(length_of(kind, 64), 63U) << kind << ": no configuration can say more";
    EXPECT_EQ(length_of(kind, 15, 3), 3U) << kind;
  }
  for (const char* const kind : {"eagle", "eagle2", "eagle3", "mtp", "ngram", "model"}) {
    EXPECT_EQ(length_of(kind, 64), 5U) << kind;
    EXPECT_EQ(length_of(kind, 64, 3), 3U) << kind;
  }
  EXPECT_EQ(drafters_of({}).back().draft_length, 16U) << "of predictions";
}

} // namespace
} // namespace paceline::config
