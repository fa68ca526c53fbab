#include "runtime/speculation/drafters/forced_drafter.hpp"

#include "runtime/base/token_bits.hpp"
#include "runtime/base/token_constraint.hpp"
#include "tests/support/draft_tasks.hpp"

#include <gtest/gtest.h>

namespace paceline::speculation {
namespace {

using namespace test;

constexpr std::int32_t first_name = 100, space = 20, line_break = 21, space_and_break = 22;

/// Outputs that consist of records: a forced name (100, 103, 106, ...), a separator, and a value below
/// `num_values`. The shortest separator, `space`, is a part of the others.
class records final : public constraint_cursor {
 public:
  std::int32_t num_values = 10;
  bool has_names = true;

  std::span<const std::uint32_t> allowed(std::span<const token_id>, std::span<const token_id>) override {
    ADD_FAILURE() << "a drafter asks for no masks";
    return {};
  }
  std::size_t num_allowed(std::span<const token_id> output, std::span<const token_id> path,
                          std::span<const token_id> next) override {
    std::size_t count = 0;
    while (count < next.size() && fits(next[count], output.size() + path.size() + count)) ++count;
    return count;
  }
  std::optional<token_id> append_forced(std::span<const token_id> output, std::size_t max_tokens,
                                        std::vector<token_id>& out) override {
    EXPECT_GT(max_tokens, 0U);
    auto place = output.size();
    if (place % 3 == 0 && has_names) {
      out.emplace_back(first_name + static_cast<std::int32_t>(place++));
      if (max_tokens == 1) return std::nullopt;
    }
    if (place % 3 != 1) return std::nullopt;
    return place < 3 ? token_id{space} : output[1];
  }

 private:
  bool fits(token_id token, std::size_t place) const {
    if (place % 3 == 0) return token.value == first_name + static_cast<std::int32_t>(place) || !has_names;
    if (place % 3 == 1) return token.value >= space && token.value <= space_and_break;
    return token.value < num_values;
  }
};

struct forced : ::testing::Test {
  std::unique_ptr<drafter> made = built_in(options_of("f", "forced"));
  drafted_request request{*made};
  records constraint;

  draft next(const ids& output, std::uint32_t length) {
    ids text{5, 6};
    text.insert(text.end(), output.begin(), output.end());
    request.prompt_length = 2;
    request.constraint = &constraint;
    return request.propose(text, length);
  }
  static ids tokens(const draft& of) {
    ids all;
    for (const token_id token : of.tree.tokens()) all.push_back(token.value);
    return all;
  }
};

using signals = std::vector<std::uint8_t>;

TEST_F(forced, drafts_what_must_follow_and_how_it_usually_goes_on) {
  const auto first = next({}, 8);
  EXPECT_EQ(tokens(first), (ids{100, space})) << "no value was there yet";
  EXPECT_EQ(first.signals, (signals{7, 6}));
  const auto second = next({100, line_break, 3}, 8);
  EXPECT_EQ(tokens(second), (ids{103, line_break, 3, 106, line_break, 3, 109, line_break}));
  EXPECT_EQ(second.signals, (signals{7, 6, 4, 7, 6, 4, 7, 6}));
}

TEST_F(forced, begins_with_a_guess) {
  const auto made_behind_a_name = next({100, line_break, 3, 103}, 4);
  EXPECT_EQ(tokens(made_behind_a_name), (ids{line_break, 3, 106, line_break}));
  EXPECT_EQ(made_behind_a_name.signals, (signals{6, 4, 7, 6}));
}

TEST_F(forced, prefers_what_followed_two_equal_tokens) {
  const auto behind = next({100, line_break, 3, 103, 22, 4, 106, line_break}, 2);
  EXPECT_EQ(tokens(behind), (ids{3, 109}));
  constraint.has_names = false;
  const auto free = next({7, 21, 3, 8, 21, 4, 7, 21}, 4);
  EXPECT_EQ(tokens(free), ids{}) << "copying alone is the work of others";
}

TEST_F(forced, guesses_nothing_that_the_constraint_excludes) {
  constraint.num_values = 3;
  EXPECT_EQ(tokens(next({100, line_break, 3}, 8)), (ids{103, line_break})) << "3 is no value any more";
}

TEST_F(forced, drafts_no_more_than_it_may) {
  for (std::uint32_t length = 1; length <= 8; ++length) {
    const auto made_of = next({100, line_break, 3}, length);
    EXPECT_EQ(made_of.tree.size(), length);
    EXPECT_EQ(made_of.signals.size(), length);
  }
}

TEST_F(forced, drafts_nothing_without_a_constraint) {
  request.prompt_length = 2;
  EXPECT_EQ(request.chain({5, 6, 7, 7, 7}, 8), ids{});
}

} // namespace
} // namespace paceline::speculation
