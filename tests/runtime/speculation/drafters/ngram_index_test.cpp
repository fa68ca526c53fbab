#include "runtime/speculation/drafters/ngram_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace paceline::speculation {
namespace {

/// The definition: longest suffix first, most recent earlier occurrence, by scanning everything.
std::optional<std::size_t> scan(const std::vector<token_id>& text, std::size_t min_length,
                                std::size_t max_length) {
  for (std::size_t length = std::min(max_length, text.size()); length >= min_length; --length)
    for (std::size_t end = text.size() - 1; end >= length; --end)
      if (std::equal(text.end() - static_cast<std::ptrdiff_t>(length), text.end(),
                     text.begin() + static_cast<std::ptrdiff_t>(end - length)))
        return end;
  return std::nullopt;
}

TEST(ngram_index, finds_what_a_scan_of_the_whole_text_finds) {
  std::mt19937 engine(21);
  SCOPED_TRACE("seed 21");
  for (int trial = 0; trial < 60; ++trial) {
    const std::uint32_t min_length = 1 + engine() % 3;
    const std::uint32_t max_length = min_length + engine() % 4;
    const std::uint32_t alphabet = 2 + engine() % 12;
    ngram_index index(min_length, max_length);
    std::vector<token_id> text;
    for (int step = 0; step < 120; ++step) {
      for (std::size_t i = 0, n = 1 + engine() % 5; i < n; ++i)
        text.push_back(token_id{static_cast<std::int32_t>(engine() % alphabet)});
      ASSERT_TRUE(index.extend(text, 1000));
      ASSERT_EQ(index.continuation(text), scan(text, min_length, max_length))
          << "trial " << trial << ", step " << step;
    }
  }
}

/// The definition of `find`: every earlier place, longest agreement first, then the most recent.
std::vector<occurrence> scan_all(const std::vector<token_id>& text, const std::vector<token_id>& query,
                                 std::uint32_t min_length, std::uint32_t max_length) {
  std::vector<occurrence> all;
  for (std::size_t next = text.size() - 1; next >= 1; --next) {
    std::uint32_t length = 0;
    while (length < std::min({next, query.size(), std::size_t{max_length}}) &&
           text[next - 1 - length] == query[query.size() - 1 - length])
      ++length;
    if (length >= min_length) all.push_back({next, length});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.length > b.length; });
  return all;
}

TEST(ngram_index, finds_every_place_with_the_length_of_its_agreement) {
  std::mt19937 engine(22);
  SCOPED_TRACE("seed 22");
  for (int trial = 0; trial < 60; ++trial) {
    const std::uint32_t alphabet = 2 + engine() % 6;
    const std::uint32_t longest = 1 + engine() % 20;
    const auto random_text = [&](std::size_t size) {
      std::vector<token_id> text;
      for (std::size_t i = 0; i < size; ++i)
        text.push_back(token_id{static_cast<std::int32_t>(engine() % alphabet)});
      return text;
    };
    ngram_index index({2, 3, 8, 16});
    auto text = random_text(2);
    for (int step = 0; step < 20; ++step) {
      for (const token_id token : random_text(1 + engine() % 8)) text.push_back(token);
      ASSERT_TRUE(index.extend(text, 1000));
      std::vector<occurrence> found;
      const std::uint32_t most = std::max(longest, 2U);
      for (const auto& query : {text, random_text(5)}) {
        index.find(text, query, 1000, most, found);
        ASSERT_EQ(found, scan_all(text, query, 2, most)) << "trial " << trial << ", step " << step;
      }
      const auto all = scan_all(text, text, 2, most);
      index.find(text, text, 3, most, found);
      ASSERT_LE(found.size(), 3U);
      ASSERT_EQ(found.empty(), all.empty());
      ASSERT_TRUE(all.empty() || all.front().length < 16 || found.front().length >= 16);
    }
  }
}

/// A short suffix is frequent; a longer match is far back among its occurrences.
TEST(ngram_index, finds_the_longest_agreement_behind_many_shorter_ones) {
  ngram_index index(std::vector<std::uint32_t>{1, 2, 4});
  std::vector<token_id> text{token_id{9}, token_id{1}, token_id{2}, token_id{7}};
  for (int i = 0; i < 200; ++i)
    for (const std::int32_t token : {5, 1, 2, 6}) text.push_back(token_id{token});
  for (const std::int32_t token : {9, 1, 2}) text.push_back(token_id{token});
  ASSERT_TRUE(index.extend(text, text.size()));
  std::vector<occurrence> found;
  index.find(text, text, 64, 32, found);
  ASSERT_EQ(found.size(), 64U);
  EXPECT_EQ(found.front(), (occurrence{3, 3})) << "9 1 2, followed by 7";
  EXPECT_EQ(found[1], (occurrence{text.size() - 4, 2})) << "then the latest";
}

TEST(ngram_index, a_continuation_repeats_where_it_runs_into_the_end) {
  const std::vector<token_id> text{token_id{4}, token_id{5}, token_id{6}};
  EXPECT_EQ(continuation_of(text, 1, 5),
            (std::vector<token_id>{token_id{5}, token_id{6}, token_id{5}, token_id{6}, token_id{5}}));
}

TEST(ngram_index, visits_each_token_once_and_no_more_than_asked) {
  ngram_index index(2, 4);
  std::vector<token_id> text(1000, token_id{1});
  EXPECT_FALSE(index.extend(text, 400));
  EXPECT_EQ(index.num_indexed(), 400U);
  EXPECT_FALSE(index.extend(text, 400));
  EXPECT_TRUE(index.extend(text, 400));
  EXPECT_EQ(index.num_indexed(), 999U) << "n-grams that end with the last token have no continuation yet";
  text.push_back(token_id{2});
  EXPECT_TRUE(index.extend(text, 1));
  EXPECT_EQ(index.num_indexed(), 1000U);
}

TEST(ngram_index, a_shorter_text_is_another_text) {
  ngram_index index(1, 2);
  const std::vector<token_id> text{token_id{1}, token_id{2}, token_id{1}, token_id{3}, token_id{1}};
  ASSERT_TRUE(index.extend(text, 100));
  EXPECT_EQ(index.continuation(text), 3U);
  const std::vector<token_id> other{token_id{1}, token_id{1}};
  ASSERT_TRUE(index.extend(other, 100));
  EXPECT_EQ(index.continuation(other), 1U);
  EXPECT_TRUE(index.extend({}, 100));
  EXPECT_EQ(index.continuation({}), std::nullopt);
}

} // namespace
} // namespace paceline::speculation
