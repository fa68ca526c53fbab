// What a DFlash head's config.json says, in errors.
#include "tests/support/head_test.hpp"

#include <gmock/gmock.h>

#include <string>

namespace paceline::test::dflash_config_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class dflash_config_test : public head_test {};

TEST_F(dflash_config_test, texts_of_the_file_are_escaped_in_errors) {
  const std::string hostile = "\x1b[31m\n" + std::string(5000, 'x');
  for (const char* const key : {"speculators_model_type", "projector_type", "markov_head_type"}) {
    tiny_head head = tiny_head::dspark(hidden, vocab, "vanilla");
    auto& nested = head.config["dflash_config"].as_object();
    (nested.contains(key) ? nested : head.config)[key] = hostile;
    const std::string found = problem("dspark", head);
    EXPECT_THAT(found, AllOf(HasSubstr(key), HasSubstr(R"(is '\x1b[31m\x0ax)"), Not(HasSubstr("\x1b"))));
    EXPECT_LT(found.size(), 400U);
  }
}

TEST_F(dflash_config_test, a_window_has_a_range) {
  tiny_head head = tiny_head::dflash(hidden, vocab);
  head.config["layer_types"] = {"full_attention", "sliding_attention"};
  head.config["sliding_window"] = 1U << 30;
  EXPECT_EQ(problem("dflash", head), "was accepted");
  head.config["sliding_window"] = 4294967295;
  EXPECT_THAT(problem("dflash", head), HasSubstr("'sliding_window' is 4294967295, must be 1 to 1073741824"));
}

} // namespace
} // namespace paceline::test::dflash_config_test
