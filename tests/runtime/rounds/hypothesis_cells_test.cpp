// A drafting model's cells for the hypotheses of a beam search. Every draft depends on its text alone, and no
// text is read twice. The hash model notices any cell that does not belong to the text.
#include "runtime/rounds/hypothesis_cells.hpp"

#include "runtime/speculation/drafters/model_drafter.hpp"
#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace paceline::rounds::hypothesis_cells_test {
namespace {

using speculation::model_drafter;
using text = std::vector<token_id>;

constexpr std::uint32_t vocab = 20, block_size = 4, draft_length = 3;

text numbers(std::int32_t factor, std::uint32_t length) {
  text out;
  for (std::uint32_t i = 0; i < length; ++i)
    out.emplace_back((static_cast<std::int32_t>(i) * factor + factor) % static_cast<std::int32_t>(vocab));
  return out;
}

text joined(text begin, const text& end) {
  begin.insert(begin.end(), end.begin(), end.end());
  return begin;
}

class hypothesis_cells_test : public testing::Test {
 protected:
  void begin(std::uint32_t prompt_length, std::uint32_t num_blocks) {
    prompt = numbers(7, prompt_length);
    for (std::uint32_t b = 0; b < num_blocks; ++b) lease.emplace_back(500 + num_blocks - b);
  }

  /// The drafts of a round, for the hypotheses with these outputs.
  std::vector<text> draft(const std::vector<text>& outputs) {
    cells.begin_round(outputs, {.lease = lease,
                                .block_size = block_size,
                                .num_prompt_cells = static_cast<std::uint32_t>(prompt.size()),
                                .num_draft_cells = drafter.own_positions(draft_length),
                                .num_read_twice = draft_length + 1});
    own->rows_of_passes.clear();
    std::vector<text> drafts(outputs.size());
    num_calls = 0;
    for (;;) {
      const auto opened = cells.open_next(ops, *kv, *empty);
      if (opened.empty()) return drafts;
      ++num_calls;
      std::vector<text> texts;
      for (const auto i : opened) texts.push_back(joined(prompt, outputs[i]));
      std::vector<speculation::draft_task> tasks;
      for (std::size_t t = 0; t < opened.size(); ++t) {
        auto task = task_for(texts[t], cells.session(opened[t]));
        task.num_settled = task.prompt_length;
        task.blocks = cells.blocks(opened[t]);
        if (cells.begins_lease(opened[t])) task.num_drafter_cells = num_final;
        tasks.push_back(std::move(task));
      }
      drafter.propose(ops, kv.get(), tasks);
      for (std::size_t t = 0; t < opened.size(); ++t) {
        const auto tokens = tasks[t].result.tree.tokens();
        drafts[opened[t]].assign(tokens.begin(), tokens.end());
      }
    }
  }
  speculation::draft_task task_for(const text& tokens, speculation::drafter_session* session) {
    speculation::draft_task task{};
    task.tokens = tokens;
    task.sampling = &pipeline;
    task.counts = &counts;
    task.prompt_length = static_cast<std::uint32_t>(prompt.size());
    task.draft_length = task.max_nodes = draft_length;
    task.session = session;
    return task;
  }

  /// The draft after the prompt and `output`, computed from the tokens alone.
  text right(const text& output) const {
    const model::hash_model oracle({.vocab_size = vocab});
    auto all = joined(prompt, output);
    text drafted;
    while (drafted.size() < draft_length) {
      const auto logits = oracle.logits_after(all);
      const auto best = std::ranges::max_element(logits) - logits.begin();
      drafted.emplace_back(static_cast<std::int32_t>(best));
      all.push_back(drafted.back());
    }
    return drafted;
  }
  std::vector<text> right(const std::vector<text>& outputs) const {
    std::vector<text> drafts;
    for (const auto& output : outputs) drafts.push_back(right(output));
    return drafts;
  }
  std::size_t num_rows() const {
    return std::accumulate(own->rows_of_passes.begin(), own->rows_of_passes.end(), std::size_t{0});
  }

  test::no_ops ops;
  sampling::pipeline pipeline{{.temperature = 0}, {}};
  sampling::token_counts counts;
  std::shared_ptr<speculation::test_support::counted_model> own =
      std::make_shared<speculation::test_support::counted_model>(
          model::hash_model_config{.vocab_size = vocab});
  model_drafter drafter{test::options_of("model", "model"), {.model = own}, vocab};
  std::unique_ptr<model::kv_storage> kv = own->make_kv_storage(2000, block_size);
  std::unique_ptr<speculation::drafter_session> empty = drafter.open(request_id{1});
  text prompt;
  std::vector<block_id> lease;
  std::uint32_t num_final = 0;
  hypothesis_cells cells;
  std::uint32_t num_calls = 0; ///< of the drafter, in the last round
};

TEST_F(hypothesis_cells_test, whatever_a_search_does_drafts_are_those_of_the_texts_alone) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    cells = {};
    lease.clear();
    begin(9 + seed, 200);
    std::vector<text> outputs{numbers(3, 1)};
    std::vector<text> drafts = draft(outputs);
    for (std::uint32_t round = 0; round < 60; ++round) {
      const auto num_new = 1 + random() % (draft_length + 1);
      std::set<text> next; // children of some hypotheses, along their drafts or not
      while (next.size() < 2 + random() % 3) {
        const auto parent = random() % outputs.size();
        auto child = outputs[parent];
        const auto along = random() % (num_new + 1);
        for (std::size_t i = 0; i < num_new; ++i)
          child.push_back(i < along && i < draft_length
                              ? drafts[parent][i]
                              : token_id{static_cast<std::int32_t>(random() % vocab)});
        next.insert(child);
      }
      outputs.assign(next.begin(), next.end());
      std::ranges::shuffle(outputs, random);
      drafts = draft(outputs);
      ASSERT_EQ(drafts, right(outputs)) << "round " << round;
      EXPECT_EQ(num_calls, 1U) << "all are drafted for at once";
      EXPECT_LE(own->rows_of_passes.front(), outputs.size() * num_new);
      EXPECT_FALSE(cells.catching_up());
    }
  }
}

TEST_F(hypothesis_cells_test, what_they_have_in_common_is_read_once) {
  begin(100, 200);
  std::vector<text> outputs;
  for (const std::int32_t last : {1, 2, 3, 4}) outputs.push_back(joined(numbers(3, 50), {token_id{last}}));
  EXPECT_EQ(draft(outputs), right(outputs));
  EXPECT_EQ(num_calls, 2U) << "the others wait for the first";
  EXPECT_EQ(num_rows(), 151U + 3 + 4 * (draft_length - 1));
  EXPECT_TRUE(cells.catching_up());
}

TEST_F(hypothesis_cells_test, what_takes_several_rounds_to_read_is_read_for_one_of_them) {
  begin(model_drafter::max_catch_up + 90, 400);
  const std::vector<text> outputs{numbers(3, 4), numbers(9, 4)};
  EXPECT_EQ(draft(outputs), (std::vector<text>{{}, {}}));
  EXPECT_EQ(own->rows_of_passes, (std::vector<std::size_t>{model_drafter::max_catch_up}));
  EXPECT_EQ(draft(outputs), right(outputs));
  EXPECT_EQ(num_rows(), 90U + 2 * 4 + 2 * (draft_length - 1));
}

/// Texts that differ early and are longer than what a call reads.
TEST_F(hypothesis_cells_test, each_is_read_to_its_end_over_several_rounds) {
  begin(30, 1000);
  std::vector<text> outputs;
  for (const std::int32_t factor : {3, 9, 11}) outputs.push_back(numbers(factor, 600));
  std::vector<std::size_t> num_drafted;
  for (std::uint32_t round = 0; round < 6; ++round) {
    const auto drafts = draft(outputs);
    std::size_t num = 0;
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      if (drafts[i].empty()) continue;
      ++num;
      EXPECT_EQ(drafts[i], right(outputs[i])) << i;
    }
    num_drafted.push_back(num);
    EXPECT_LE(num_rows(), num_calls * model_drafter::max_catch_up + 3 * draft_length);
    EXPECT_EQ(cells.catching_up(), round < 3);
    for (auto& output : outputs) output.emplace_back(static_cast<std::int32_t>(round));
  }
  EXPECT_EQ(num_drafted, (std::vector<std::size_t>{0, 2, 3, 3, 3, 3}));
  EXPECT_EQ(own->rows_of_passes, (std::vector<std::size_t>{3, 3, 3})) << "from then on only what is new";
}

TEST_F(hypothesis_cells_test, texts_that_begin_alike_share_blocks) {
  begin(40, (40 + 40) / block_size + 4); // and a block for the part of each that is not shared
  std::vector<text> outputs;
  for (const std::int32_t last : {1, 2, 3, 4}) outputs.push_back(joined(numbers(3, 40), {token_id{last}}));
  EXPECT_EQ(draft(outputs), right(outputs));
}

TEST_F(hypothesis_cells_test, one_without_blocks_is_left_out_until_the_lease_has_grown) {
  begin(40, 44 / block_size + 1);
  const std::vector<text> outputs{numbers(3, 4), numbers(9, 4)};
  const auto all = right(outputs);
  EXPECT_EQ(draft(outputs), (std::vector<text>{all[0], {}}));
  for (std::uint32_t b = 0; b < 5; ++b) lease.emplace_back(b);
  EXPECT_EQ(draft(outputs), all);
  EXPECT_EQ(own->rows_of_passes.front(), 1U + 4);
}

/// The lease begins with blocks of the prefix cache, which another request uses, too.
TEST_F(hypothesis_cells_test, nobody_writes_to_blocks_of_the_prefix_cache) {
  begin(14, 100);
  const auto other_session = drafter.open(request_id{2});
  const auto other_blocks = lease;
  const auto draft_for_other = [&] {
    auto task = task_for(prompt, other_session.get());
    task.blocks = other_blocks;
    drafter.propose(ops, kv.get(), {&task, 1});
    return text(task.result.tree.tokens().begin(), task.result.tree.tokens().end());
  };
  EXPECT_EQ(draft_for_other(), right(text{}));
  lease.clear();
  for (std::uint32_t b = 0; b < 60; ++b) lease.emplace_back(b < 3 ? other_blocks[b].value : b);
  num_final = 12;
  std::vector<text> outputs{numbers(3, 1), numbers(9, 1)};
  EXPECT_EQ(draft(outputs), right(outputs));
  EXPECT_EQ(own->rows_of_passes.front(), 15U - 12) << "they are taken over";
  for (std::uint32_t round = 0; round < 40; ++round) { // the first one is dropped again and again
    outputs = {joined(outputs[1], {token_id{1}}), joined(outputs[1], {token_id{2}})};
    ASSERT_EQ(draft(outputs), right(outputs));
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(std::ranges::equal(cells.blocks(i).first(3), std::span(other_blocks).first(3)));
  }
  EXPECT_EQ(draft_for_other(), right(text{}));
}

} // namespace
} // namespace paceline::rounds::hypothesis_cells_test
