#include "runtime/speculation/drafters/prediction_drafter.hpp"

#include "tests/support/draft_tasks.hpp"

#include <gtest/gtest.h>

namespace paceline::speculation {
namespace {

using namespace test;

struct predicted : ::testing::Test {
  std::unique_ptr<drafter> made = built_in(options_of("p", "prediction"));
  drafted_request request{*made};
  ids output;
  ids text() const {
    ids all{900, 901};
    all.insert(all.end(), output.begin(), output.end());
    return all;
  }
  ids next(std::uint32_t length = 4) {
    request.prompt_length = 2;
    return request.chain(text(), length);
  }
  void write(const ids& tokens) { output.insert(output.end(), tokens.begin(), tokens.end()); }
};

TEST_F(predicted, proposes_the_prediction_from_its_beginning) {
  request.prediction = tokens_of({1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(next(3), (ids{1, 2, 3}));
  EXPECT_EQ(next(8), (ids{1, 2, 3, 4})) << "nothing agreed so far";
  write({1, 2, 3, 4});
  EXPECT_EQ(next(8), (ids{5, 6, 7, 8, 9})) << "to its end";
  write({5, 6, 7, 8, 9});
  EXPECT_EQ(next(8), ids{});
  write({10});
  EXPECT_EQ(next(8), ids{});
}

TEST_F(predicted, goes_on_behind_a_replaced_token_at_once) {
  request.prediction = tokens_of({1, 2, 3, 4, 5, 6, 7, 8});
  write({1, 2, 30});
  EXPECT_EQ(next(), (ids{4, 5, 6, 7}));
  write({4, 5});
  EXPECT_EQ(next(), (ids{6, 7, 8}));
}

TEST_F(predicted, finds_its_place_again_after_an_insertion) {
  request.prediction = tokens_of({1, 2, 3, 4, 5, 6, 7, 8});
  write({1, 2, 30});
  next();
  write({31});
  EXPECT_EQ(next(), ids{}) << "lost";
  write({3});
  EXPECT_EQ(next(), ids{}) << "one token alone says nothing";
  write({4});
  EXPECT_EQ(next(), (ids{5, 6, 7, 8}));
}

TEST_F(predicted, finds_its_place_again_after_a_deletion) {
  request.prediction = tokens_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  write({1, 2, 6});
  next();
  write({7});
  EXPECT_EQ(next(), (ids{8, 9, 10}));
}

TEST_F(predicted, of_equal_places_takes_the_nearest_behind_the_divergence) {
  request.prediction = tokens_of({50, 51, 1, 60, 2, 3, 50, 51, 4, 61, 50, 51, 5, 62});
  write({50, 51, 1, 60, 2, 70, 71, 50, 51});
  EXPECT_EQ(next(1), (ids{4}));
}

TEST_F(predicted, of_several_places_takes_the_one_that_agrees_longer) {
  request.prediction = tokens_of({50, 51, 1, 60, 2, 3, 9, 50, 51, 4, 61, 60, 50, 51, 5, 62});
  write({50, 51, 1, 60, 2, 70, 60, 50, 51});
  EXPECT_EQ(next(1), (ids{5}));
}

TEST_F(predicted, without_a_prediction_nothing_is_proposed) {
  write({1, 2, 1, 2});
  EXPECT_EQ(next(), ids{});
}

TEST_F(predicted, a_wrong_guess_is_not_held_on_to) {
  request.prediction = tokens_of({1, 2, 3, 4, 5, 6});
  write({1, 9});
  EXPECT_EQ(next(), (ids{3, 4, 5, 6}));
  write({8});
  EXPECT_EQ(next(), ids{});
}

} // namespace
} // namespace paceline::speculation
