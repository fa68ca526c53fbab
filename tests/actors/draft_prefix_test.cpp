// Drafters with cells of their own find the beginning of a text in the prefix cache of their pool, as the
// target does in its own: they compute what is new, and draft as if they had computed all.
#include "tests/actors/requests.hpp"

#include "runtime/speculation/drafters/model_drafter.hpp"
#include "tests/support/hash_head.hpp"

#include <gtest/gtest.h>

#include <memory>

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

/// The same for a head that reads its whole text.
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

constexpr std::uint32_t prompt_length = 150, draft_length = 4;

/// Whether the drafter of the pool has a head, else a model.
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
    drafters.push_back({std::make_unique<speculation::model_drafter>(
                            options_of("drafter", "model"), std::move(network), small_target().vocab_size),
                        draft_length, 1});
    sim_ = std::make_unique<simulation>(options_, std::move(drafters));
  }

  static generation_request prompt_number(std::int32_t n, std::uint32_t length = prompt_length) {
    auto request = request_number(3, 1.0F, 24);
    request.prompt.resize(0);
    for (std::int32_t i = 0; request.prompt.size() < length; ++i)
      request.prompt.emplace_back((i * i + n * (i + 1)) % 60);
    return request;
  }

  /// The rows that the drafter computes for one more request, which must be drafted for to the end.
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
  std::shared_ptr<std::uint64_t> num_rows_ = std::make_shared<std::uint64_t>(0);
  std::unique_ptr<simulation> sim_;
  std::vector<token_id> last_; ///< the last request's output
};

TEST_P(draft_prefix, a_prompt_is_read_once) {
  start();
  const auto first = rows_for(prompt_number(0)), second = rows_for(prompt_number(0));
  // All but the newest token's whole block.
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

/// A drafter begins to read a prompt behind the pass that decides the first token.
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
