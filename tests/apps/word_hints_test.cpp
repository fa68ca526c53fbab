#include "apps/word_hints.hpp"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

namespace paceline::apps {
namespace {

/// A program with two commands.
class word_hints : public testing::Test {
 protected:
  word_hints() {
    auto* run = app_.add_subcommand("run", "");
    run->add_option("-m,--model", text_);
    run->add_option("-n,--max-tokens", text_);
    run->add_option("-p,--prompt", text_);
    run->add_option("--stop", texts_);
    run->add_option("--draft-model", text_);
    run->add_option("--temperature", text_);
    run->add_flag("--json", flag_);
    app_.add_subcommand("serve", "")->add_option("--set", texts_);
  }

  std::string hint(const std::vector<std::string>& words) const { return foreign_flag(app_, words); }

  CLI::App app_;
  std::string text_;
  std::vector<std::string> texts_;
  bool flag_ = false;
};

TEST_F(word_hints, flags_of_other_programs_are_translated) {
  EXPECT_EQ(hint({"run", "--temp", "0.7"}), "unknown flag --temp; here it is --temperature");
  EXPECT_EQ(hint({"run", "--temp=0.7"}), "unknown flag --temp=0.7; here it is --temperature");
  EXPECT_EQ(hint({"run", "--json", "-md", "x"}), "unknown flag -md; here it is --draft-model");
  EXPECT_EQ(hint({"serve", "-np", "4"}), "unknown flag -np; here it is --set models.0.max_running=N");
}

TEST_F(word_hints, what_another_command_has_is_said) {
  EXPECT_EQ(hint({"run", "-np", "4"}), "unknown flag -np; for serve it is --set models.0.max_running=N");
}

TEST_F(word_hints, values_are_no_flags) {
  EXPECT_EQ(hint({"run", "--prompt", "-md"}), "");
  EXPECT_EQ(hint({"run", "-p", "--temp"}), "");
  EXPECT_EQ(hint({"run", "--prompt=-md", "-m", "-np", "--stop", "-md"}), "");
  EXPECT_EQ(hint({"run", "-n5", "-m/models/-md"}), "");
  EXPECT_EQ(hint({"run", "--", "-md"}), "");
}

TEST_F(word_hints, a_flag_takes_one_value) {
  EXPECT_EQ(hint({"run", "--prompt", "x", "-md", "y"}), "unknown flag -md; here it is --draft-model");
  EXPECT_EQ(hint({"run", "--prompt=x", "-md", "y"}), "unknown flag -md; here it is --draft-model");
  EXPECT_EQ(hint({"run", "--stop", "a", "b", "-md", "y"}), "unknown flag -md; here it is --draft-model");
}

TEST_F(word_hints, help_is_given_whatever_else_is_wrong) {
  EXPECT_EQ(hint({"run", "--temp", "1", "-h"}), "");
}

TEST_F(word_hints, unknown_flags_are_left_to_the_parser) {
  EXPECT_EQ(hint({"run", "--modle", "x"}), "");
  EXPECT_EQ(hint({"rnu"}), "");
}

} // namespace
} // namespace paceline::apps
