#include "runtime/rounds/beam_search.hpp"

#include "runtime/rounds/hypothesis_sessions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace paceline::rounds {
namespace {

/// Text in which token t is the letter 'a' + t; ends at `stop`.
class letters final : public text_output {
 public:
  explicit letters(std::string stop) : stop_(std::move(stop)) {}
  piece feed(token_id token, bool may_stop) override {
    text_ += static_cast<char>('a' + token.value);
    return {{}, may_stop && text_.ends_with(stop_) ? std::optional(stop_) : std::nullopt};
  }
  std::string finish() override { return text_; }
  std::unique_ptr<text_output> clone() const override { return std::make_unique<letters>(*this); }

 private:
  std::string stop_;
  std::string text_;
};

class counted_session final : public speculation::drafter_session {};

class session_maker final : public speculation::drafter {
 public:
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    ++num_opened;
    return std::make_unique<counted_session>();
  }
  void propose(device::ops&, model::kv_storage*, std::span<speculation::draft_task>) override {}
  int num_opened = 0;

 private:
  speculation::drafter_traits traits_;
};

constexpr std::uint32_t vocab = 4;
constexpr std::uint32_t prompt_length = 3;

/// A search without a model: the distributions after each path are given.
class search {
 public:
  search(std::uint32_t width, std::uint32_t max_output, stop_params stop = {})
      : stop_(std::move(stop)), pipeline_({}, stop_),
        beams_({width, width, 1.0F}, stop_, prompt_length, max_output) {}

  /// Probabilities after `path`, in letters; of other paths: 0.4 0.3 0.2 0.1.
  std::map<std::string, std::vector<float>> probs;
  const text_output* text = nullptr;
  std::uint32_t num_slots = 100;
  std::vector<std::string> asked; ///< paths whose rows were requested

  beam_search::progress round(std::vector<std::pair<std::uint32_t, speculation::token_tree>> drafts = {}) {
    if (!beams_.prompt_is_computed()) {
      beams_.set_prompt_computed();
    } else {
      for (const auto& [hypothesis, tree] : drafts) beams_.add_draft(hypothesis, tree);
      const auto planned = beams_.plan_rows(num_slots);
      rows.assign(planned.begin(), planned.end());
    }
    const auto done = beams_.advance({&pipeline_, &counts_, text}, [&](std::uint32_t node) {
      row_.assign(vocab, 0);
      const auto path = letters_of(node);
      asked.push_back(path);
      const auto known = probs.find(path);
      const std::vector<float> usual{0.4F, 0.3F, 0.2F, 0.1F};
      for (std::size_t v = 0; v < vocab; ++v)
        row_[v] = std::log((known == probs.end() ? usual : known->second)[v]);
      return std::span(row_);
    });
    EXPECT_EQ(beams_.check_invariants(), "");
    return done;
  }

  std::vector<std::string> hypotheses() const {
    std::vector<std::string> out;
    for (std::uint32_t i = 0; i < beams_.num_hypotheses(); ++i) out.push_back(spelt(beams_.output_of(i)));
    return out;
  }
  std::vector<std::string> best() const {
    std::vector<std::string> out;
    for (const auto& one : beams_.best()) out.push_back(spelt(one.tokens));
    return out;
  }
  beam_search& beams() { return beams_; }
  std::vector<beam_search::row> rows; ///< of the last round

 private:
  static std::string spelt(const std::vector<token_id>& tokens) {
    std::string out;
    for (const auto token : tokens) out += static_cast<char>('a' + token.value);
    return out;
  }
  std::string letters_of(std::uint32_t node) const {
    std::string out;
    for (auto at = node; at != beam_search::root; at = beams_.parent_of(at))
      out.insert(out.begin(), static_cast<char>('a' + beams_.token_of(at).value));
    return out;
  }

  stop_params stop_;
  sampling::pipeline pipeline_;
  sampling::token_counts counts_;
  beam_search beams_;
  std::vector<float> row_;
};

speculation::token_tree chain(const std::string& tokens) {
  speculation::token_tree tree;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tree.add(token_id{tokens[i] - 'a'}, static_cast<std::int32_t>(i) - 1);
  return tree;
}

TEST(beam_search_state, keeps_the_likeliest_sums) {
  search s(2, 3);
  s.probs["b"] = {0.9F, 0.05F, 0.03F, 0.02F}; // 0.27, against 0.16 and 0.12 behind a
  s.round();
  EXPECT_EQ(s.hypotheses(), (std::vector<std::string>{"a", "b"}));
  s.round();
  EXPECT_EQ(s.hypotheses(), (std::vector<std::string>{"ba", "aa"}));
  EXPECT_EQ(s.round().num_steps, 1U);
  EXPECT_TRUE(s.beams().finished());
  EXPECT_EQ(s.best(), (std::vector<std::string>{"baa", "bab"}));
}

TEST(beam_search_state, an_ending_counts_among_the_best_only_and_the_search_ends_with_as_many_as_it_is_wide) {
  stop_params stop;
  stop.stop_ids = {token_id{0}, token_id{3}};
  search s(2, 5, stop);
  s.round(); // a ends it as the likeliest; d is the fourth and out
  EXPECT_EQ(s.hypotheses(), (std::vector<std::string>{"b", "c"}));
  EXPECT_FALSE(s.beams().finished());
  s.round();
  EXPECT_TRUE(s.beams().finished());
  EXPECT_EQ(s.best(), (std::vector<std::string>{"a", "ba"}));
}

TEST(beam_search_state, with_as_many_endings_as_it_is_wide_those_that_live_do_not_count) {
  stop_params stop;
  stop.stop_ids = {token_id{0}};
  search s(2, 2, stop);
  s.probs[""] = {0.3F, 0.5F, 0.15F, 0.05F};
  s.probs["b"] = {0.5F, 0.49F, 0.005F, 0.005F};
  s.round(); // a has ended
  s.round(); // ba has ended, at the last step; bb has a better score than a
  EXPECT_EQ(s.best(), (std::vector<std::string>{"ba", "a"}));
}

TEST(beam_search_state, drafts_end_a_level_before_the_output) {
  search s(1, 4);
  s.round();
  EXPECT_EQ(s.beams().max_draft_levels(), 2U);
  s.round();
  s.round();
  EXPECT_EQ(s.beams().max_draft_levels(), 0U);
}

TEST(beam_search_state, a_minimum_length_keeps_endings_away) {
  stop_params stop;
  stop.stop_ids = {token_id{0}};
  stop.min_tokens = 2;
  search s(1, 5, stop);
  s.round();
  EXPECT_EQ(s.hypotheses(), (std::vector<std::string>{"b"}));
  s.round();
  s.round();
  EXPECT_EQ(s.best(), (std::vector<std::string>{"bba"}));
}

TEST(beam_search_state, a_stop_string_ends_the_hypothesis_that_completes_it) {
  const letters text("ab");
  search s(2, 4);
  s.text = &text;
  s.probs["b"] = {0.3F, 0.3F, 0.2F, 0.2F};
  s.round();
  s.round(); // aa 0.16, ab 0.12 which ends, ba 0.09
  EXPECT_EQ(s.hypotheses(), (std::vector<std::string>{"aa", "ba"}));
  while (!s.beams().finished()) s.round();
  const auto best = s.best();
  ASSERT_EQ(best.size(), 2U);
  for (const auto& one : best) EXPECT_TRUE(one.ends_with("ab")) << one;
}

TEST(beam_search_state, takes_as_many_steps_as_drafts_have_rows_for) {
  search plain(2, 6), drafted(2, 6);
  for (auto* one : {&plain, &drafted}) {
    one->probs["b"] = one->probs["ab"] = {0.25F, 0.25F, 0.25F, 0.25F};
    one->round();
  }
  for (int i = 0; i < 3; ++i) plain.round();
  // The best two are a, b; then aa, ab; then aaa, aab.
  auto tree = chain("aa");
  tree.add(token_id{1}, -1);
  const auto done = drafted.round({{0, tree}, {1, chain("d")}});
  EXPECT_EQ(done.num_draft, 4U);
  EXPECT_EQ(done.num_steps, 2U);
  EXPECT_EQ(done.num_accepted, 3U) << "aa, ab and aaa, which waits for aab";
  drafted.round();
  EXPECT_EQ(drafted.hypotheses(), plain.hypotheses());
}

TEST(beam_search_state, a_row_that_waits_for_its_siblings_is_not_computed_again) {
  search s(2, 6);
  s.round();
  s.round({{0, chain("a")}}); // aa has a row, its sibling ab has none
  EXPECT_EQ(s.hypotheses(), (std::vector<std::string>{"aa", "ab"}));
  s.asked.clear();
  s.round();
  EXPECT_EQ(s.rows.size(), 1U);
  EXPECT_EQ(s.asked, (std::vector<std::string>{"ab"}));
}

TEST(beam_search_state, siblings_with_equal_tokens_are_one) {
  search s(1, 6);
  s.round();
  speculation::token_tree twins;
  twins.add(token_id{0}, -1);
  twins.add(token_id{0}, -1);
  twins.add(token_id{0}, 1);
  const auto done = s.round({{0, twins}});
  EXPECT_EQ(done.num_draft, 2U);
  EXPECT_EQ(done.num_accepted, 2U);
  EXPECT_EQ(done.num_steps, 3U);
}

TEST(beam_search_state, without_cells_it_waits_and_drops_drafts_first) {
  search s(2, 6);
  s.round();
  s.num_slots = prompt_length + 1; // a cell for one of two
  EXPECT_EQ(s.round({{0, chain("a")}}).num_steps, 0U);
  EXPECT_EQ(s.beams().num_cells(), prompt_length + 2);
  s.num_slots = prompt_length + 2;
  const auto done = s.round({{0, chain("a")}});
  EXPECT_EQ(done.num_steps, 1U);
  EXPECT_EQ(done.num_draft, 0U);
  EXPECT_EQ(s.hypotheses(), (std::vector<std::string>{"aa", "ab"}));
}

TEST(beam_search_state, cells_of_dropped_hypotheses_are_given_out_again) {
  search s(2, 6);
  s.round();
  s.round(); // cells 3 and 4 for a and b; b is dropped
  EXPECT_EQ(s.beams().num_cells(), prompt_length + 3);
  s.num_slots = prompt_length + 3;
  EXPECT_EQ(s.round().num_steps, 1U) << "aa and ab have cells 4 and 5";
}

TEST(beam_search_state, after_a_preemption_all_tokens_get_cells_before_it_goes_on) {
  search s(2, 200), whole(2, 200);
  for (int i = 0; i < 150; ++i) s.num_slots = 1000, s.round(), whole.num_slots = 1000, whole.round();
  s.beams().forget_cells();
  EXPECT_FALSE(s.beams().may_draft());
  s.beams().set_prompt_computed();
  EXPECT_EQ(s.round().num_steps, 0U) << "more tokens than a round computes";
  EXPECT_EQ(s.rows.size(), beam_search::max_rows);
  s.round();
  whole.round();
  EXPECT_EQ(s.hypotheses(), whole.hypotheses());
}

TEST(beam_search_state, a_session_follows_the_text_it_has_seen) {
  search s(2, 8);
  session_maker drafter;
  hypothesis_sessions sessions;
  const auto follow = [&] {
    const std::vector outputs{s.beams().output_of(0), s.beams().output_of(1)};
    return sessions.follow(outputs, drafter, request_id{1});
  };
  s.round();
  const auto first = follow();
  EXPECT_NE(first[0], first[1]);
  s.round(); // aa, ab: both of a
  const auto second = follow();
  EXPECT_EQ(second[0], first[0]);
  EXPECT_NE(second[1], first[0]);
  EXPECT_EQ(drafter.num_opened, 3) << "that of b went with it";
}

TEST(beam_search_state, a_model_without_a_finite_logit_fails_the_request) {
  search s(2, 4);
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  s.probs[""] = {nan, nan, nan, nan};
  EXPECT_THROW(s.round(), std::runtime_error);
}

} // namespace
} // namespace paceline::rounds
