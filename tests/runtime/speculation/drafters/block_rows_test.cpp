// Drafters whose levels come from rows after the newest one.
#include "runtime/speculation/drafters/model_drafter.hpp"

#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/hash_block_head.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace paceline::speculation {
namespace {

constexpr std::uint32_t vocab = 20;
constexpr std::uint32_t block_size = 4;
constexpr std::uint32_t context_length = 900;

struct block_case {
  std::string name;
  std::uint32_t num_rows;
  bool is_causal;
  std::uint32_t first_level_row;

  std::uint32_t max_levels() const { return num_rows + 1 - first_level_row; }
  /// The number of rows after the newest one, for a draft of this number of levels.
  std::uint32_t rows_for(std::uint32_t levels) const {
    return is_causal ? first_level_row + levels - 1 : num_rows;
  }
  friend void PrintTo(const block_case& c, std::ostream* out) { *out << c.name; }
};

class block_rows_test : public testing::TestWithParam<block_case> {
 protected:
  void SetUp() override {
    const block_case& c = GetParam();
    head = std::make_shared<test::hash_block_head>(
        model::hash_model_config{.vocab_size = vocab, .context_length = context_length},
        model::head_traits{.max_levels = c.max_levels(),
                           .is_parallel = true,
                           .num_block_rows = c.num_rows,
                           .block_is_causal = c.is_causal,
                           .first_level_row = c.first_level_row});
    drafter.emplace(test::options_of("block", "eagle3"), draft_network{.head = head}, vocab);
    own = head->make_kv_storage(2000, block_size);
    const layer_index taps[]{head->taps()[0]};
    target = head->make_kv_storage(2000, block_size, taps);
  }

  /// A request with a lease of its own, and final cells in the target of all tokens but the newest.
  struct request {
    std::vector<token_id> tokens;
    sampling::pipeline pipeline{{.temperature = 0}, {}};
    sampling::token_counts counts;
    std::vector<block_id> blocks, target_blocks;
    std::unique_ptr<drafter_session> session;
    std::uint32_t draft_length = 4;
    std::uint32_t num_final = 0; ///< 0: all that there are

    void commit(const std::vector<token_id>& more) {
      for (const token_id token : more) {
        tokens.push_back(token);
        counts.add_output(token);
      }
    }
  };

  request make_request(std::uint32_t length, std::uint32_t num_cells = 1000) {
    request one;
    for (std::uint32_t i = 0; i < length; ++i)
      one.tokens.push_back(token_id{static_cast<std::int32_t>((i * i + next_block) % vocab)});
    one.counts.add_prompt(one.tokens);
    for (std::uint32_t i = 0; i < num_cells / block_size; ++i) one.blocks.push_back(block_id{next_block + i});
    for (std::uint32_t i = 0; i < 250; ++i) one.target_blocks.push_back(block_id{1999 - next_block - i});
    next_block += 300;
    one.session = drafter->open(request_id{1});
    return one;
  }

  void write_features(const request& one) {
    const model::feature_cells& cells = *target->features();
    const auto states = head->states_of(one.tokens);
    for (std::uint32_t p = 0; p + 1 < states.size(); ++p) {
      const auto cell = device::cell_of({one.target_blocks}, kv_slot{p}, block_size);
      std::ranges::copy(states[p], cells.values + cell * cells.width());
    }
  }

  std::vector<draft> propose(std::vector<request*> requests) {
    std::vector<draft_task> tasks(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      request& one = *requests[i];
      write_features(one);
      tasks[i].tokens = one.tokens;
      tasks[i].sampling = &one.pipeline;
      tasks[i].counts = &one.counts;
      tasks[i].prompt_length = 1;
      tasks[i].draft_length = one.draft_length;
      tasks[i].max_nodes = token_tree::max_nodes;
      tasks[i].blocks = one.blocks;
      tasks[i].session = one.session.get();
      const auto all = static_cast<std::uint32_t>(one.tokens.size()) - 1;
      tasks[i].target_cells = {target.get(), one.target_blocks, one.num_final > 0 ? one.num_final : all};
    }
    head->rows_of_passes.clear();
    test::no_ops ops;
    drafter->propose(ops, own.get(), tasks);
    std::vector<draft> drafts;
    for (draft_task& task : tasks) drafts.push_back(std::move(task.result));
    return drafts;
  }
  std::vector<token_id> propose(request& one) { return tokens_of(propose(std::vector{&one})[0]); }

  static std::vector<token_id> tokens_of(const draft& proposal) {
    EXPECT_TRUE(proposal.tree.is_chain());
    return {proposal.tree.tokens().begin(), proposal.tree.tokens().end()};
  }

  /// The likeliest tokens, computed from the text alone.
  std::vector<token_id> expected_draft(const request& one, std::uint32_t length) const {
    const model::hash_model oracle({.vocab_size = vocab, .context_length = context_length});
    std::vector<token_id> context = one.tokens;
    for (std::uint32_t i = 0; i < length; ++i) {
      const auto logits = oracle.logits_after(context);
      context.push_back(
          token_id{static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin())});
    }
    return {context.begin() + static_cast<std::ptrdiff_t>(one.tokens.size()), context.end()};
  }

  /// The cells of the text in the drafter's pool have the values that follow from the target's features of
  /// all rows.
  void expect_text_computed(const request& one) const {
    const model::feature_cells& cells = *own->features();
    const auto states = head->states_of(one.tokens);
    for (std::uint32_t p = 0; p + 1 < states.size(); ++p) {
      const float* const at =
          cells.values + device::cell_of({one.blocks}, kv_slot{p}, block_size) * cells.width();
      ASSERT_EQ(std::vector<float>(at, at + cells.hidden_size), states[p + 1]) << "row " << p;
    }
    EXPECT_EQ(one.session->num_cells().committed, one.tokens.size() - 1);
  }

  std::uint32_t rows_for(std::uint32_t levels) const { return GetParam().rows_for(levels); }

  std::shared_ptr<test::hash_block_head> head;
  std::optional<model_drafter> drafter;
  std::unique_ptr<model::kv_storage> own, target;
  std::uint32_t next_block = 0;
};

using sizes = std::vector<std::size_t>;

TEST_P(block_rows_test, all_levels_come_from_the_pass_over_the_text) {
  request one = make_request(10);
  EXPECT_EQ(propose(one), expected_draft(one, 4));
  EXPECT_EQ(head->rows_of_passes, (sizes{9 + rows_for(4)}));
  expect_text_computed(one);
  EXPECT_EQ(one.session->num_cells().all, 9 + rows_for(4));
  one.draft_length = 1;
  EXPECT_EQ(propose(one), expected_draft(one, 1));
  EXPECT_EQ(head->rows_of_passes, (sizes{1 + rows_for(1)}));
}

TEST_P(block_rows_test, cells_of_block_rows_are_forgotten_whatever_is_accepted) {
  request one = make_request(10);
  for (std::uint32_t accepted : {4U, 0U, 2U, 1U}) {
    std::vector<token_id> drafted = propose(one);
    ASSERT_EQ(drafted, expected_draft(one, 4));
    expect_text_computed(one);
    drafted.resize(accepted);
    drafted.push_back(token_id{7});
    one.commit(drafted);
    EXPECT_EQ(propose(one), expected_draft(one, 4));
    EXPECT_EQ(head->rows_of_passes, (sizes{accepted + 1 + rows_for(4)})) << accepted;
    expect_text_computed(one);
  }
}

TEST_P(block_rows_test, requests_of_one_batch_draft_to_their_own_lengths) {
  request a = make_request(10), b = make_request(3), c = make_request(17), d = make_request(2);
  a.draft_length = 1, b.draft_length = 3, c.draft_length = 60, d.draft_length = 0;
  const auto drafts = propose({&a, &b, &c, &d});
  const std::uint32_t most = GetParam().max_levels();
  EXPECT_EQ(tokens_of(drafts[0]), expected_draft(a, 1));
  EXPECT_EQ(tokens_of(drafts[1]), expected_draft(b, 3));
  EXPECT_EQ(tokens_of(drafts[2]), expected_draft(c, most));
  EXPECT_TRUE(drafts[3].tree.empty());
  EXPECT_EQ(head->rows_of_passes, (sizes{9 + rows_for(1) + 2 + rows_for(3) + 16 + rows_for(most)}));
}

TEST_P(block_rows_test, rounds_sat_out_are_caught_up) {
  request one = make_request(10), other = make_request(6);
  propose({&one, &other});
  one.commit({token_id{3}, token_id{4}});
  for (int round = 0; round < 3; ++round) {
    one.commit(expected_draft(one, 2));
    EXPECT_EQ(propose(other), expected_draft(other, 4));
    other.commit(expected_draft(other, 1));
  }
  EXPECT_EQ(propose(one), expected_draft(one, 4));
  EXPECT_EQ(head->rows_of_passes, (sizes{8 + rows_for(4)}));
  expect_text_computed(one);
}

TEST_P(block_rows_test, a_long_text_is_learnt_over_several_calls_and_the_block_is_in_the_last) {
  request slow = make_request(700), quick = make_request(10);
  auto drafts = propose({&slow, &quick});
  EXPECT_TRUE(drafts[0].tree.empty());
  EXPECT_EQ(tokens_of(drafts[1]), expected_draft(quick, 4));
  EXPECT_EQ(head->rows_of_passes, (sizes{model_drafter::max_catch_up + rows_for(4)}));
  EXPECT_EQ(slow.session->num_cells().all, slow.session->num_cells().committed) << "no block yet";
  drafts = propose({&slow, &quick});
  EXPECT_EQ(tokens_of(drafts[0]), expected_draft(slow, 4));
  EXPECT_EQ(tokens_of(drafts[1]), expected_draft(quick, 4));
  expect_text_computed(slow);
}

TEST_P(block_rows_test, drafts_fit_the_lease) {
  for (std::uint32_t length = 1; length <= 14; ++length) {
    request one = make_request(length, 12);
    next_block -= 300;
    const std::uint32_t left = 12 - std::min(12U, length - 1); // behind the newest row, if it fits
    std::uint32_t levels = 0;
    while (levels < std::min(4U, GetParam().max_levels()) && rows_for(levels + 1) <= left) ++levels;
    if (length == 1 || length > 13) levels = 0;
    EXPECT_EQ(propose(one), expected_draft(one, levels)) << length;
  }
}

TEST_P(block_rows_test, drafts_fit_the_context_of_the_head) {
  for (std::uint32_t length = context_length - 12; length <= context_length + 2; ++length) {
    request one = make_request(length);
    one.draft_length = 12;
    next_block -= 300;
    propose(one);
    const std::uint32_t left = context_length - std::min(context_length, length - 1);
    std::uint32_t levels = 0;
    while (levels < GetParam().max_levels() && rows_for(levels + 1) <= left) ++levels;
    if (length - 1 > context_length) levels = 0;
    EXPECT_EQ(propose(one), expected_draft(one, levels)) << length;
  }
}

TEST_P(block_rows_test, it_says_how_many_cells_a_draft_needs) {
  const std::uint32_t most = GetParam().max_levels();
  for (std::uint32_t levels = 1; levels <= most + 3; ++levels)
    EXPECT_EQ(drafter->own_positions(levels), rows_for(std::min(levels, most))) << levels;
  EXPECT_EQ(drafter->own_positions(0), 0U);
  EXPECT_EQ(drafter->traits().block_positions, GetParam().is_causal ? 0 : GetParam().num_rows);
}

TEST_P(block_rows_test, waits_for_the_features_of_the_text) {
  request one = make_request(10);
  one.num_final = 8;
  EXPECT_TRUE(propose(one).empty());
  EXPECT_TRUE(head->rows_of_passes.empty());
}

TEST_P(block_rows_test, forgets_what_a_failed_pass_may_have_written) {
  request one = make_request(10);
  propose(one);
  head->fail_next_pass = true;
  EXPECT_THROW(propose(one), std::runtime_error);
  EXPECT_EQ(propose(one), expected_draft(one, 4));
  EXPECT_EQ(head->rows_of_passes, (sizes{9 + rows_for(4)}));
}

INSTANTIATE_TEST_SUITE_P(blocks, block_rows_test,
                         testing::Values(block_case{"causal_from_the_newest", 6, true, 0},
                                         block_case{"causal_from_the_first", 6, true, 1},
                                         block_case{"whole_from_the_first", 6, false, 1},
                                         block_case{"whole_from_the_second", 6, false, 2}),
                         [](const auto& made) { return made.param.name; });

} // namespace
} // namespace paceline::speculation
