#include "apps/commands/local_engine.hpp"

#include <gtest/gtest.h>

namespace paceline::apps {
namespace {

TEST(default_drafter, a_drafting_model_is_used_unless_a_drafter_is_named) {
  model_choice choice;
  EXPECT_EQ(*default_drafter(choice), "auto");
  choice.draft_model = "small.gguf";
  EXPECT_EQ(*default_drafter(choice), "model");
  for (const auto* named : {"auto", "none", "ngram"}) {
    choice.drafter = named;
    EXPECT_EQ(*default_drafter(choice), named);
  }
}

TEST(default_drafter, either_a_model_or_a_head_drafts) {
  model_choice choice;
  choice.draft_model = "small.gguf";
  choice.draft_head = "head";
  choice.drafter = "ngram";
  EXPECT_FALSE(default_drafter(choice));
}

} // namespace
} // namespace paceline::apps
