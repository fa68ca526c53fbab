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
    head.config[key] = hostile;
    const std::string found = problem("dspark", head);
    EXPECT_THAT(found, AllOf(HasSubstr(key), HasSubstr(R"(is '\x1b[31m\x0ax)"), Not(HasSubstr("\x1b"))));
    EXPECT_LT(found.size(), 400U);
  }
}

} // namespace
} // namespace paceline::test::dflash_config_test
