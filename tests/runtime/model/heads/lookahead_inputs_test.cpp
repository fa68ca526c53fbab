// Look-ahead rows from their directories: what is read, and what is refused and how.
#include "runtime/model/heads/lookahead_inputs.hpp"

#include "runtime/model/heads/files/head_kind.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_head.hpp"
#include "tests/support/tiny_hf_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace paceline::test {
namespace {

using model::lookahead_node;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t hidden = 16;

class lookahead_inputs_test : public ::testing::Test {
 protected:
  lookahead_inputs_test() {
    pass_.add("lookahead.weight", {4, hidden});
    ppd_.add("prompt_embeddings", {3, hidden});
  }
  void write(const tiny_head& files, const std::string& adapter = {}, const std::string& trees = {}) {
    files.write(folder_.path());
    if (!adapter.empty()) write_text(folder_ / "adapter_config.json", adapter);
    if (!trees.empty()) write_text(folder_ / "sparse_trees.json", trees);
  }
  std::string problem(const std::string& kind) {
    const auto loaded = model::load_lookahead_inputs(kind, folder_.path(), hidden);
    return loaded ? "was accepted" : loaded.error().message();
  }
  std::string problem_of_adapter(const std::string& adapter, const std::string& trees = {}) {
    write(ppd_, adapter, trees);
    return problem("ppd");
  }

  tiny_head pass_, ppd_;
  scratch_folder folder_;
};

TEST_F(lookahead_inputs_test, reads_look_ahead_embeddings) {
  write(pass_);
  EXPECT_EQ(model::kind_of_head(folder_.path()).value(), "pass");
  const auto loaded = model::load_lookahead_inputs("pass", folder_.path(), hidden);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->num_rows, 4U);
  EXPECT_EQ(loaded->width, hidden);
  EXPECT_EQ(loaded->values, pass_.tensors.at("lookahead.weight").values);
  EXPECT_THAT(loaded->trees, IsEmpty());
}

TEST_F(lookahead_inputs_test, reads_a_published_adapter_and_the_trees_beside_it) {
  write(ppd_,
        R"({"peft_type": "PROMPT_TUNING", "num_special_tokens": 3, "virtual_tokens_per_special_token": 1,
                  "vt_attention_type": "ensemble", "use_custom_lm_head": false, "token_dim": 16})");
  EXPECT_EQ(model::kind_of_head(folder_.path()).value(), "ppd");
  auto loaded = model::load_lookahead_inputs("ppd", folder_.path(), hidden);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->num_rows, 3U);
  EXPECT_EQ(loaded->values, ppd_.tensors.at("prompt_embeddings").values);
  EXPECT_THAT(loaded->trees, IsEmpty());
  write(ppd_, {},
        R"({"1": [[[0], 0.5, 3], [[1], 0.2, 1]], "2": [[[0], 0.5, 2], [[0, 0], 0.3, 0]], "3": []})");
  loaded = model::load_lookahead_inputs("ppd", folder_.path(), hidden);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_THAT(loaded->trees,
              ElementsAre(ElementsAre(lookahead_node{{0}, 3}, lookahead_node{{1}, 1}),
                          ElementsAre(lookahead_node{{0}, 2}, lookahead_node{{0, 0}, 0}), IsEmpty()));
}

TEST_F(lookahead_inputs_test, refuses_tensors_that_do_not_fit_the_target) {
  pass_.add("lookahead.weight", {4, 8});
  write(pass_);
  EXPECT_THAT(problem("pass"),
              AllOf(HasSubstr("'lookahead.weight'"), HasSubstr("[4][16]"), HasSubstr("has [4][8]")));
  EXPECT_THAT(problem("ppd"), HasSubstr("'prompt_embeddings' is missing"));
  pass_.add("lookahead.weight", {64, hidden});
  write(pass_);
  EXPECT_THAT(problem("pass"), AllOf(HasSubstr("has 64 rows"), HasSubstr("at most 63")));
  pass_.add("lookahead.weight", {4, hidden});
  pass_.add("other.weight", {4});
  write(pass_);
  EXPECT_THAT(problem("pass"), HasSubstr("'other.weight' has no meaning"));
}

TEST_F(lookahead_inputs_test, refuses_adapters_that_need_other_rows) {
  EXPECT_THAT(problem_of_adapter(R"({"virtual_tokens_per_special_token": 2})"),
              AllOf(HasSubstr("adapter_config.json: key 'virtual_tokens_per_special_token'"),
                    HasSubstr("is 2, must be 1")));
  EXPECT_THAT(problem_of_adapter(R"({"num_exits": 3})"), HasSubstr("is 3, must be 1"));
  EXPECT_THAT(problem_of_adapter(R"({"use_custom_lm_head": true})"),
              AllOf(HasSubstr("use_custom_lm_head"), HasSubstr("must be false")));
  EXPECT_THAT(problem_of_adapter(R"({"use_prefix_tuning": true})"), HasSubstr("use_prefix_tuning"));
  EXPECT_THAT(problem_of_adapter(R"({"vt_attention_type": "encoder"})"), HasSubstr("decoder or ensemble"));
  EXPECT_THAT(problem_of_adapter(R"({"token_dim": 32})"),
              AllOf(HasSubstr("token_dim"), HasSubstr("is 32"), HasSubstr("is 16")));
  EXPECT_THAT(problem_of_adapter(R"({"num_special_tokens": 2})"),
              AllOf(HasSubstr("num_special_tokens"), HasSubstr("is 2"), HasSubstr("3 rows")));
}

TEST_F(lookahead_inputs_test, refuses_lists_that_are_no_trees) {
  const auto problem_of_trees = [&](const std::string& first) {
    return problem_of_adapter("{}", R"({"1": [)" + first + R"(], "2": [], "3": []})");
  };
  EXPECT_EQ(problem_of_trees("[[0], 0.5, 3]"), "was accepted");
  EXPECT_THAT(problem_of_trees("[[0, 0], 0.5, 3]"),
              AllOf(HasSubstr("sparse_trees.json: 1[0][0]"), HasSubstr("1 to 1 ranks")));
  EXPECT_EQ(problem_of_trees("[[1], 0.5, 3]"), "was accepted"); // published lists leave out siblings
  EXPECT_THAT(problem_of_trees("[[0], 0.5, 3], [[0], 0.5, 3]"), HasSubstr("must stand once"));
  EXPECT_THAT(problem_of_trees("[[0], 0.5, 4]"), AllOf(HasSubstr("is 4"), HasSubstr("3 prompt tokens")));
  EXPECT_THAT(problem_of_adapter("{}", R"({"1": []})"), HasSubstr("sparse_trees.json: 2"));
}

} // namespace
} // namespace paceline::test
