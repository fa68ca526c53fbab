#include "runtime/speculation/drafters/model_drafter.hpp"

#include "runtime/model/hash_model.hpp"
#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace paceline::speculation {
namespace {

using test_support::counted_model;

constexpr std::uint32_t vocab = 20;
constexpr std::uint32_t block_size = 4;

class model_drafter_test : public testing::Test {
 protected:
  void use(const model::hash_model_config& config, std::uint32_t target_vocab = vocab) {
    own = std::make_shared<counted_model>(config);
    drafter.emplace(test::options_of("small", "model"), draft_network{.model = own}, target_vocab);
    kv = own->make_kv_storage(2000, block_size);
    next_block = 0;
  }
  void SetUp() override { use({.vocab_size = vocab}); }

  /// A request with a lease of its own.
  struct request {
    std::vector<token_id> tokens;
    std::size_t prompt_length = 0;
    sampling::pipeline pipeline{{.seed = 3}, {}};
    sampling::token_counts counts;
    std::vector<block_id> blocks;
    std::unique_ptr<drafter_session> session;
    verification_rule rule = verification_rule::coupled;
    std::uint32_t draft_length = 4;
    length_rule lengths = length_rule::fixed;

    void commit(const std::vector<token_id>& more) {
      for (const token_id token : more) {
        tokens.push_back(token);
        counts.add_output(token);
      }
    }
  };

  request make_request(std::size_t prompt_length, std::uint32_t num_blocks = 300) {
    request one;
    for (std::size_t i = 0; i < prompt_length; ++i)
      one.tokens.push_back(token_id{static_cast<std::int32_t>((i * i + 3) % vocab)});
    one.prompt_length = prompt_length;
    one.counts.add_prompt(one.tokens);
    for (std::uint32_t i = 0; i < num_blocks; ++i) one.blocks.push_back(block_id{next_block++});
    one.session = drafter->open(request_id{1});
    return one;
  }

  std::vector<draft> propose(std::vector<request*> requests) {
    std::vector<draft_task> tasks(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      tasks[i].tokens = requests[i]->tokens;
      tasks[i].sampling = &requests[i]->pipeline;
      tasks[i].counts = &requests[i]->counts;
      tasks[i].prompt_length = static_cast<std::uint32_t>(requests[i]->prompt_length);
      tasks[i].rule = requests[i]->rule;
      tasks[i].draft_length = requests[i]->draft_length;
      tasks[i].lengths = requests[i]->lengths;
      tasks[i].blocks = requests[i]->blocks;
      tasks[i].session = requests[i]->session.get();
    }
    own->rows_of_passes.clear();
    test::no_ops ops;
    drafter->propose(ops, kv.get(), tasks);
    std::vector<draft> drafts;
    for (draft_task& task : tasks) drafts.push_back(std::move(task.result));
    return drafts;
  }
  draft propose(request& one) { return propose(std::vector<request*>{&one})[0]; }

  std::vector<token_id> tokens_of(const draft& proposal) {
    return {proposal.tree.tokens().begin(), proposal.tree.tokens().end()};
  }

  /// The expected draft, computed from the tokens alone.
  std::vector<token_id> expected_draft(const request& one) {
    const model::hash_model oracle({.vocab_size = own->info().vocab_size});
    std::vector<token_id> path;
    while (path.size() < one.draft_length) {
      std::vector<token_id> context = one.tokens;
      context.insert(context.end(), path.begin(), path.end());
      auto logits = oracle.logits_after(context);
      path.push_back(one.pipeline.process_and_sample(
          std::span(logits).first(vocab),
          {.committed = &one.counts,
           .draft_path = path,
           .position = token_position{static_cast<std::uint32_t>(context.size())},
           .output_index = static_cast<std::uint32_t>(context.size() - one.prompt_length)}));
    }
    return path;
  }

  std::shared_ptr<counted_model> own;
  std::optional<model_drafter> drafter;
  std::unique_ptr<model::kv_storage> kv;
  std::uint32_t next_block = 0;
};

using sizes = std::vector<std::size_t>;

TEST_F(model_drafter_test, drafts_one_pass_a_token_after_its_prompt) {
  request one = make_request(10);
  const draft first = propose(one);
  EXPECT_EQ(tokens_of(first), expected_draft(one));
  EXPECT_EQ(first.base_length, 10U);
  EXPECT_TRUE(first.probs.empty()) << "coupled drafts need no distribution";
  EXPECT_EQ(own->rows_of_passes, (sizes{10, 1, 1, 1})) << "the last draft token is never fed";
}

TEST_F(model_drafter_test, catches_up_after_full_acceptance_and_rolls_back_after_a_rejection) {
  request one = make_request(10);
  auto accepted = tokens_of(propose(one));
  accepted.push_back(token_id{5}); // bonus
  one.commit(accepted);
  EXPECT_EQ(tokens_of(propose(one)), expected_draft(one));
  EXPECT_EQ(own->rows_of_passes, (sizes{2, 1, 1, 1})) << "the last accepted token and the bonus";
  // Rejection at the second token: the recovered one replaces it.
  const auto drafted = tokens_of(propose(one));
  one.commit({drafted[0], token_id{(drafted[1].value + 1) % 20}});
  EXPECT_EQ(tokens_of(propose(one)), expected_draft(one));
  EXPECT_EQ(own->rows_of_passes, (sizes{1, 1, 1, 1}));
  // Nothing accepted.
  const auto again = tokens_of(propose(one));
  one.commit({token_id{(again[0].value + 7) % 20}});
  EXPECT_EQ(tokens_of(propose(one)), expected_draft(one));
  EXPECT_EQ(own->rows_of_passes, (sizes{1, 1, 1, 1}));
}

TEST_F(model_drafter_test, asked_twice_gives_the_same_draft) {
  request one = make_request(7);
  EXPECT_EQ(tokens_of(propose(one)), tokens_of(propose(one)));
  EXPECT_EQ(own->rows_of_passes.front(), 1U);
}

TEST_F(model_drafter_test, learns_a_long_prompt_over_several_calls_while_others_draft_on) {
  request running = make_request(5);
  propose(running);
  request newcomer = make_request(700);
  auto drafts = propose({&newcomer, &running});
  EXPECT_TRUE(drafts[0].tree.empty());
  EXPECT_TRUE(drafts[0].catching_up);
  EXPECT_EQ(tokens_of(drafts[1]), expected_draft(running));
  EXPECT_FALSE(drafts[1].catching_up);
  EXPECT_EQ(own->rows_of_passes.front(), std::size_t{model_drafter::max_catch_up});
  drafts = propose({&newcomer, &running});
  EXPECT_FALSE(drafts[0].catching_up);
  EXPECT_EQ(tokens_of(drafts[0]), expected_draft(newcomer));
  EXPECT_EQ(tokens_of(drafts[1]), expected_draft(running));
  EXPECT_EQ(own->rows_of_passes, (sizes{700 - 511 + 1, 2, 2, 2}));
}

TEST_F(model_drafter_test, requests_of_one_batch_draft_to_their_own_lengths) {
  request shorter = make_request(6);
  shorter.draft_length = 1;
  request longer = make_request(9);
  longer.draft_length = 5;
  request none = make_request(4);
  none.draft_length = 0;
  const auto drafts = propose({&shorter, &none, &longer});
  EXPECT_EQ(tokens_of(drafts[0]), expected_draft(shorter));
  EXPECT_TRUE(drafts[1].tree.empty());
  EXPECT_EQ(tokens_of(drafts[2]), expected_draft(longer));
  EXPECT_EQ(own->rows_of_passes, (sizes{15, 1, 1, 1, 1}));
}

TEST_F(model_drafter_test, shortens_near_the_end_of_its_context_and_stops_behind_it) {
  use({.vocab_size = vocab, .context_length = 12});
  request one = make_request(10);
  EXPECT_EQ(propose(one).tree.size(), 3U) << "tokens at positions 10, 11 and 12; the last is never fed";
  request last = make_request(12);
  EXPECT_EQ(propose(last).tree.size(), 1U);
  request beyond = make_request(13);
  EXPECT_TRUE(propose(beyond).tree.empty());
  EXPECT_TRUE(own->rows_of_passes.empty());
}

TEST_F(model_drafter_test, never_writes_outside_its_lease) {
  request one = make_request(10, 3); // 12 cells
  EXPECT_EQ(propose(one).tree.size(), 3U);
  request without = make_request(10, 0);
  EXPECT_TRUE(propose(without).tree.empty());
  request empty = make_request(0);
  EXPECT_TRUE(propose(empty).tree.empty());
}

TEST_F(model_drafter_test, forgets_what_a_failed_pass_may_have_written) {
  request one = make_request(10);
  propose(one);
  one.commit({token_id{1}});
  own->fail_next_pass = true;
  EXPECT_THROW(propose(one), std::runtime_error);
  EXPECT_EQ(tokens_of(propose(one)), expected_draft(one));
  EXPECT_EQ(own->rows_of_passes.front(), 11U) << "everything is computed again";
}

TEST_F(model_drafter_test, a_new_session_starts_from_nothing) {
  request one = make_request(10);
  propose(one);
  std::swap(one.blocks[0], one.blocks[5]); // another lease
  one.session = drafter->open(request_id{1});
  EXPECT_EQ(tokens_of(propose(one)), expected_draft(one));
}

TEST_F(model_drafter_test, under_rejection_it_reports_what_it_drew_from) {
  use({.vocab_size = 200}, 200);
  request one = make_request(10);
  one.rule = verification_rule::rejection;
  const draft proposal = propose(one);
  ASSERT_EQ(proposal.probs.size(), 4U);
  EXPECT_TRUE(validate_draft(proposal, 200, 4));
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(proposal.probs[i].tokens.size(), 64U);
    EXPECT_EQ(proposal.tree.tokens()[i], draw(proposal.probs[i], {.seed = 3,
                                                                  .position = token_position{10 + i},
                                                                  .purpose = noise_purpose::draft,
                                                                  .place = draft_place(i, 0)}));
  }
  one.pipeline = sampling::pipeline({.temperature = 0}, {});
  EXPECT_TRUE(propose(one).probs.empty()) << "a greedy draft is certain";
}

/// A first round with room for one token does not bound the rounds after it.
TEST_F(model_drafter_test, by_rule_entropy_minds_the_bound_of_each_round) {
  use({.vocab_size = vocab, .sharpness = 1000});
  request one = make_request(10);
  one.lengths = length_rule::entropy;
  one.draft_length = 1;
  EXPECT_EQ(propose(one).tree.size(), 1U);
  one.draft_length = 6;
  EXPECT_GE(propose(one).tree.size(), 5U) << "it is nearly certain";
}

/// EGAG's smallest length: a drafter that is as unsure as it can be still drafts so many tokens.
TEST_F(model_drafter_test, by_rule_entropy_drafts_the_least_length_where_it_is_unsure) {
  const auto length_with = [&](std::uint32_t least, std::uint32_t most) {
    use({.vocab_size = vocab, .sharpness = 0}); // all tokens are equally likely
    drafter.emplace(test::options_of("small", "model"), draft_network{.model = own}, vocab,
                    model_drafter_settings{.entropy_min_length = least});
    request one = make_request(10);
    one.lengths = length_rule::entropy;
    one.draft_length = most;
    return propose(one).tree.size();
  };
  EXPECT_EQ(length_with(1, 6), 1U);
  EXPECT_EQ(length_with(3, 6), 3U);
  EXPECT_EQ(length_with(3, 2), 2U) << "a request may ask for fewer";
}

TEST_F(model_drafter_test, proposes_only_tokens_of_the_target_and_survives_those_it_does_not_know) {
  use({.vocab_size = 200});
  for (int i = 0; i < 10; ++i) {
    request one = make_request(3 + static_cast<std::size_t>(i), 20);
    for (const token_id token : tokens_of(propose(one)))
      EXPECT_LT(token.value, static_cast<std::int32_t>(vocab));
  }
  use({.vocab_size = 5});
  request one = make_request(30);
  EXPECT_EQ(propose(one).tree.size(), 4U);
}

} // namespace
} // namespace paceline::speculation
