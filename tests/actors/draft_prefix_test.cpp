// Drafters with their own cells find the beginning of a text in the prefix cache of their pool, as the target
// does in its pool. They compute only what is new, and draft as if they had computed everything.
#include "tests/actors/requests.hpp"

#include "runtime/speculation/drafters/model_drafter.hpp"
#include "tests/support/hash_head.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

namespace paceline {
namespace {

using namespace test;

/// A drafting model like the target, with its rows counted.
class counted_model final : public model::language_model {
 public:
  explicit counted_model(std::shared_ptr<std::uint64_t> num_rows)
      : model_(small_target()), num_rows_(std::move(num_rows)) {}
  const model::model_info& info() const noexcept override { return model_.info(); }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t blocks, std::uint32_t size,
                                                     std::span<const layer_index> taps = {}) const override {
    return model_.make_kv_storage(blocks, size, taps);
  }
  void forward(device::ops& ops, const device::row_batch& batch, model::kv_storage& kv,
               const model::forward_outputs& outputs) const override {
    *num_rows_ += batch.rows.size();
    model_.forward(ops, batch, kv, outputs);
  }

 private:
  model::hash_model model_;
  std::shared_ptr<std::uint64_t> num_rows_;
};

/// The same for a head that reads the whole text.
class counted_head final : public model::draft_head {
 public:
  explicit counted_head(std::shared_ptr<std::uint64_t> num_rows)
      : head_(small_target()), num_rows_(std::move(num_rows)) {}
  const model::model_info& info() const noexcept override { return head_.info(); }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t blocks, std::uint32_t size,
                                                     std::span<const layer_index> taps = {}) const override {
    return head_.make_kv_storage(blocks, size, taps);
  }
  std::span<const layer_index> taps() const noexcept override { return head_.taps(); }
  std::span<const token_id> target_ids() const noexcept override { return {}; }
  std::uint32_t num_embedded() const noexcept override { return head_.num_embedded(); }
  void forward(device::ops& ops, const device::row_batch& batch, const model::head_features& features,
               model::kv_storage* kv, const model::head_outputs& outputs) const override {
    *num_rows_ += batch.rows.size();
    head_.forward(ops, batch, features, kv, outputs);
  }

 private:
  hash_head head_;
  std::shared_ptr<std::uint64_t> num_rows_;
};

/// Fails to open a session when told to, outside the drafting itself.
class failing_drafter final : public speculation::drafter {
 public:
  failing_drafter(std::unique_ptr<speculation::drafter> inner, std::shared_ptr<std::uint32_t> fail_at)
      : inner_(std::move(inner)), fail_at_(std::move(fail_at)) {}
  const speculation::drafter_traits& traits() const noexcept override { return inner_->traits(); }
  std::unique_ptr<speculation::drafter_session> open(request_id request) override {
    if (*fail_at_ > 0 && --*fail_at_ == 0) throw std::runtime_error("lost");
    return inner_->open(request);
  }
  const model::kv_model* own_model() const noexcept override { return inner_->own_model(); }
  std::uint32_t max_nodes(std::uint32_t length) const noexcept override { return inner_->max_nodes(length); }
  std::uint32_t own_positions(std::uint32_t length) const noexcept override {
    return inner_->own_positions(length);
  }
  void propose(device::ops& ops, model::kv_storage* kv, std::span<speculation::draft_task> tasks) override {
    inner_->propose(ops, kv, tasks);
  }

 private:
  std::unique_ptr<speculation::drafter> inner_;
  std::shared_ptr<std::uint32_t> fail_at_;
};

constexpr std::uint32_t prompt_length = 150, draft_length = 4;

/// The parameter is true if the drafter of the pool has a head, and false if it has a model.
class draft_prefix : public testing::TestWithParam<bool> {
 protected:
  draft_prefix() { options_.target = small_target(), options_.num_partitions = 2; }

  void start() {
    speculation::draft_network network;
    if (GetParam())
      network.head = std::make_shared<counted_head>(num_rows_);
    else
      network.model = std::make_shared<counted_model>(num_rows_);
    std::vector<simulated_drafter> drafters;
    auto drafter = std::make_unique<speculation::model_drafter>(
        options_of("drafter", "model"), std::move(network), small_target().vocab_size);
    drafters.push_back({std::make_unique<failing_drafter>(std::move(drafter), fail_at_), draft_length, 1});
    sim_ = std::make_unique<simulation>(options_, std::move(drafters));
  }

  static generation_request prompt_number(std::int32_t n, std::uint32_t length = prompt_length) {
    auto request = request_number(3, 1.0F, 24);
    request.prompt.resize(0);
    for (std::int32_t i = 0; request.prompt.size() < length; ++i)
      request.prompt.emplace_back((i * i + n * (i + 1)) % 60);
    return request;
  }

  /// The number of rows that the drafter computes for one more request, which must get drafts to the end.
  std::uint64_t rows_for(const generation_request& request) {
    const auto before = *num_rows_;
    const auto client = sim_->submit(request, drafter_index{1});
    EXPECT_TRUE(sim_->run());
    const auto& seen = sim_->client(client);
    EXPECT_EQ(seen.tokens, decode_plainly(sim_->target(), request));
    EXPECT_GE(seen.speculation->num_draft_tokens, 16U);
    EXPECT_EQ(seen.speculation->num_accepted_tokens, seen.speculation->num_draft_tokens)
        << "it knows the whole text";
    EXPECT_EQ(sim_->check_invariants(), "");
    last_ = seen.tokens;
    return *num_rows_ - before;
  }
  std::uint64_t num_hits() const { return sim_->pools().counters(kv::pool_id{1}).num_hit_tokens; }

  simulation_options options_;
  std::shared_ptr<std::uint32_t> fail_at_ = std::make_shared<std::uint32_t>(0); ///< at which next session
  std::shared_ptr<std::uint64_t> num_rows_ = std::make_shared<std::uint64_t>(0);
  std::unique_ptr<simulation> sim_;
  std::vector<token_id> last_; ///< the last request's output
};

TEST_P(draft_prefix, a_prompt_is_read_once) {
  start();
  const auto first = rows_for(prompt_number(0)), second = rows_for(prompt_number(0));
  // The whole blocks of all tokens but the newest.
  const std::uint64_t shared = prompt_length / options_.block_size * options_.block_size;
  EXPECT_EQ(first - second, shared);
  EXPECT_EQ(num_hits(), shared);
  EXPECT_EQ(sim_->pools().usage(kv::pool_id{1}).num_active, 0U);
}

TEST_P(draft_prefix, of_any_length_all_but_the_newest_token_is_found) {
  for (std::uint32_t length = 40; length <= 46; ++length) { // whole blocks, or a copy of a part
    start();
    rows_for(prompt_number(0, length));
    rows_for(prompt_number(0, length));
    EXPECT_GE(num_hits() + (GetParam() ? 1 : 0) + options_.block_size, length) << length;
    EXPECT_LT(num_hits(), length);
  }
}

TEST_P(draft_prefix, a_dialogue_goes_on_from_the_answers_too) {
  start();
  auto request = prompt_number(0);
  rows_for(request);
  auto& prompt = request.prompt.edit();
  prompt.insert(prompt.end(), last_.begin(), last_.end());
  const auto answered = static_cast<std::uint64_t>(prompt.size());
  for (std::int32_t i = 0; i < 9; ++i) prompt.emplace_back(i * 7 % 60);
  rows_for(request);
  // The last round's tokens are not computed any more.
  EXPECT_GE(num_hits(), answered - options_.block_size - draft_length - 2);
}

TEST_P(draft_prefix, what_was_evicted_is_computed_again) {
  options_.num_blocks = 50; // one request and a bit
  start();
  const auto first = rows_for(prompt_number(0));
  rows_for(prompt_number(1));
  rows_for(prompt_number(2));
  EXPECT_GT(sim_->pools().counters(kv::pool_id{1}).num_evicted_blocks, 0U);
  EXPECT_EQ(rows_for(prompt_number(0)), first);
}

TEST_P(draft_prefix, salts_and_first_tokens_keep_texts_apart) {
  start();
  auto request = prompt_number(0);
  const auto first = rows_for(request);
  request.cache_salt = "another";
  EXPECT_EQ(rows_for(request), first);
  request.cache_salt.clear();
  request.prompt.edit().front() = token_id{1};
  rows_for(request);
  EXPECT_EQ(num_hits(), 0U);
}

TEST_P(draft_prefix, is_told_apart_at_every_token) {
  const auto size = options_.block_size;
  for (std::uint32_t at = 8 * size - 1; at <= 8 * size + 1; ++at) {
    start();
    rows_for(prompt_number(0));
    auto other = prompt_number(0);
    auto& token = other.prompt.edit()[at];
    token = token_id{token.value == 0 ? 1 : 0};
    rows_for(other);                             // every draft is right
    const auto same = at - (GetParam() ? 1 : 0); // row i of a head depends on token i + 1
    EXPECT_EQ(num_hits(), same / size * size) << at;
  }
}

/// A draft program fails before it reaches the second request, whose lease begins with a copy.
TEST_P(draft_prefix, cells_to_be_copied_are_not_lost_with_a_draft_program) {
  options_.target_cost = [](std::uint64_t) { return std::chrono::milliseconds(200); }; // longer than the rest
  start();
  const auto whole_blocks = prompt_number(0, 8 * options_.block_size + (GetParam() ? 1 : 0));
  rows_for(whole_blocks);
  sim_->submit(prompt_number(1), drafter_index{1});
  const auto second = sim_->submit(whole_blocks, drafter_index{1});
  *fail_at_ = 1;
  ASSERT_TRUE(sim_->run());
  EXPECT_EQ(*fail_at_, 0U);
  EXPECT_EQ(num_hits(), 8 * options_.block_size - 1) << "the last cell's block is copied";
  const auto& said = *sim_->client(second).speculation;
  EXPECT_GE(said.num_draft_tokens, 8U) << "after the rest";
  EXPECT_EQ(said.num_accepted_tokens, said.num_draft_tokens) << "cells were never written";
  rows_for(whole_blocks); // the published cells are right
}

TEST_P(draft_prefix, a_beam_search_finds_its_prompt_and_publishes_nothing) {
  start();
  auto search = search_number(0, 3, 24);
  search.prompt = prompt_number(0).prompt;
  const auto num_cached = [&] { return sim_->pools().usage(kv::pool_id{1}).num_cached; };
  sim_->submit(search, drafter_index{1});
  ASSERT_TRUE(sim_->run());
  EXPECT_GT(sim_->client(0).speculation->num_draft_tokens, 0U);
  EXPECT_EQ(num_cached(), 0U);
  rows_for(prompt_number(0));
  EXPECT_EQ(num_hits(), 0U);
  const auto published = num_cached();
  EXPECT_GT(published, 0U);
  const auto before = *num_rows_;
  sim_->submit(search, drafter_index{1});
  ASSERT_TRUE(sim_->run());
  EXPECT_EQ(num_hits(), prompt_length / options_.block_size * options_.block_size);
  EXPECT_LT(*num_rows_, 2 * before);
  EXPECT_EQ(num_cached(), published);
}

TEST_P(draft_prefix, without_a_prefix_cache_everything_is_computed) {
  options_.prefix_cache = false;
  start();
  const auto first = rows_for(prompt_number(0));
  EXPECT_EQ(rows_for(prompt_number(0)), first);
}

TEST_P(draft_prefix, a_preempted_request_returns_to_its_cells) {
  options_.num_blocks = 24; // two requests begin, one of them ends first
  options_.block_size = 4;
  start();
  for (std::int32_t n = 0; n < 3; ++n) {
    auto request = prompt_number(n, 20);
    request.stop.max_tokens = 60;
    sim_->submit(request, drafter_index{1});
  }
  ASSERT_TRUE(sim_->run());
  EXPECT_GT(sim_->scheduler().counters().num_preemptions, 0U);
  for (std::int32_t n = 0; n < 3; ++n) {
    auto request = prompt_number(n, 20);
    request.stop.max_tokens = 60;
    EXPECT_EQ(sim_->client(static_cast<std::size_t>(n)).tokens, decode_plainly(sim_->target(), request));
    const auto& said = *sim_->client(static_cast<std::size_t>(n)).speculation;
    EXPECT_EQ(said.num_accepted_tokens, said.num_draft_tokens);
  }
  EXPECT_GT(num_hits(), 0U);
}

INSTANTIATE_TEST_SUITE_P(of, draft_prefix, testing::Bool(),
                         [](const auto& test) { return test.param ? "a_head" : "a_model"; });

TEST(draft_prefix, the_text_of_a_drafter_begins_where_its_cells_do) {
  const auto begin = [](const char* name) {
    return drafter_called(name, small_target())->traits().text_begin;
  };
  using place = std::optional<std::uint32_t>;
  EXPECT_EQ(begin("model"), place(0));
  for (const char* const head : {"head", "head_dynamic", "head_block", "head_block_causal"})
    EXPECT_EQ(begin(head), place(1)) << head;
  for (const char* const newest_row : {"head_path_static", "head_parallel_static"})
    EXPECT_EQ(begin(newest_row), place()) << newest_row;
  for (const char* const without_cells : {"ngram", "ppd", "always_right"})
    EXPECT_EQ(begin(without_cells), place()) << without_cells;
}

/// A drafter begins to read a prompt after the pass that decides the first token.
TEST(draft_prefix, reading_the_prompt_does_not_delay_the_first_token) {
  const auto first_token = [](drafter_index drafter) {
    simulation_options options;
    options.target = small_target();
    options.target_cost = expensive_rows;
    virtual_clock* time = nullptr;
    std::vector<simulated_drafter> drafters;
    drafters.push_back({std::make_unique<slow_drafter>(drafter_called("model", small_target()), time,
                                                       std::chrono::milliseconds(40)),
                        draft_length, 0}); // on the target's cores
    simulation sim(options, std::move(drafters));
    time = &sim.device().time();
    auto request = request_number(3, 1.0F, 24);
    for (std::int32_t i = 0; request.prompt.size() < prompt_length; ++i)
      request.prompt.emplace_back(i * i % 60);
    sim.submit(request, drafter);
    const auto begin = time->now();
    EXPECT_TRUE(sim.run());
    return sim.client(0).arrivals.front() - begin;
  };
  EXPECT_EQ(first_token(drafter_index{1}), first_token(plain_decoding));
}

} // namespace
} // namespace paceline
