// A draft worker that reads the target's cells. They are always those of its requests, whatever happens to
// the requests, their memory and the actors.
#include "tests/actors/requests.hpp"

#include "runtime/speculation/drafters/model_drafter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace paceline {
namespace {

using namespace test;

/// What the drafters of one simulation did.
struct watched {
  std::uint64_t num_rows = 0;  ///< of the drafter's model
  std::uint64_t num_read = 0;  ///< tasks that came with cells of the target
  std::uint64_t num_right = 0; ///< drafts that begin with the target's own choice
  std::uint64_t num_wrong = 0;
};

/// The target with identical layers, which counts its rows.
class counted_layers final : public model::language_model {
 public:
  counted_layers(const model::hash_model_config& config, std::shared_ptr<watched> seen)
      : model_(config), seen_(std::move(seen)) {}
  const model::model_info& info() const noexcept override { return model_.info(); }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t blocks, std::uint32_t size,
                                                     std::span<const layer_index> taps = {}) const override {
    return model_.make_kv_storage(blocks, size, taps);
  }
  void forward(device::ops& ops, const device::row_batch& batch, model::kv_storage& kv,
               const model::forward_outputs& outputs) const override {
    seen_->num_rows += batch.rows.size();
    model_.forward(ops, batch, kv, outputs);
  }

 private:
  model::hash_model model_;
  std::shared_ptr<watched> seen_;
};

/// A drafter of kind self with all of the target's layers. With the right cells it predicts what the target
/// predicts.
std::unique_ptr<speculation::drafter> whole_target(const std::shared_ptr<watched>& seen, bool reads) {
  return std::make_unique<speculation::model_drafter>(
      options_of("self", "self"),
      speculation::draft_network{.model = std::make_shared<counted_layers>(small_target(), seen)},
      small_target().vocab_size, speculation::model_drafter_settings{.reads_target_cells = reads});
}

/// Compares a drafter's first tokens with those computed from the text alone. The drafter predicts what the
/// target predicts if it reads the right cells or features.
class watched_drafter final : public speculation::drafter {
 public:
  watched_drafter(std::unique_ptr<speculation::drafter> inner, std::shared_ptr<watched> seen)
      : inner_(std::move(inner)), oracle_(small_target()), seen_(std::move(seen)) {}
  const speculation::drafter_traits& traits() const noexcept override { return inner_->traits(); }
  std::unique_ptr<speculation::drafter_session> open(request_id request) override {
    return inner_->open(request);
  }
  std::uint32_t max_nodes(std::uint32_t length) const noexcept override { return inner_->max_nodes(length); }
  std::uint32_t own_positions(std::uint32_t length) const noexcept override {
    return inner_->own_positions(length);
  }
  const model::kv_model* own_model() const noexcept override { return inner_->own_model(); }

  void propose(device::ops& ops, model::kv_storage* kv, std::span<speculation::draft_task> tasks) override {
    inner_->propose(ops, kv, tasks);
    for (const auto& task : tasks) {
      if (task.target_cells.kv != nullptr) ++seen_->num_read;
      if (task.result.tree.empty()) continue;
      auto logits = oracle_.logits_after(task.tokens);
      const auto chosen = task.sampling->choose(logits, speculation::row_below(task, {}));
      ++(task.result.tree.tokens().front() == chosen.token ? seen_->num_right : seen_->num_wrong);
    }
  }

 private:
  std::unique_ptr<speculation::drafter> inner_;
  model::hash_model oracle_;
  std::shared_ptr<watched> seen_;
};

simulated_drafter watched_worker(const std::shared_ptr<watched>& seen, bool reads = true) {
  return {std::make_unique<watched_drafter>(whole_target(seen, reads), seen), 4, 1};
}
simulated_drafter watched_head(const char* name, const std::shared_ptr<watched>& seen) {
  return {std::make_unique<watched_drafter>(drafter_called(name, small_target()), seen), 4, 1};
}

struct one_life {
  watched seen;
  simulated_client client;
};

/// A prompt of 150 tokens in chunks, then 24 tokens of output.
one_life live_once(bool reads, ahead_mode ahead, std::uint32_t beam_width = 0) {
  simulation_options options;
  options.target = small_target();
  options.overlap = {ahead};
  options.num_partitions = 2;
  auto seen = std::make_shared<watched>();
  std::vector<simulated_drafter> drafters;
  drafters.push_back(watched_worker(seen, reads));
  simulation sim(options, std::move(drafters));
  auto request = beam_width == 0 ? request_number(3, 1.0F, 24) : search_number(3, beam_width, 24);
  for (std::int32_t i = 0; request.prompt.size() < 150; ++i) request.prompt.emplace_back(i * i % 60);
  sim.submit(request, drafter_index{1});
  EXPECT_TRUE(sim.run());
  if (beam_width == 0) {
    EXPECT_EQ(sim.client(0).tokens, decode_plainly(sim.target(), request));
    EXPECT_EQ(sim.client(0).speculation->num_accepted_tokens, sim.client(0).speculation->num_draft_tokens);
  }
  EXPECT_EQ(seen->num_wrong, 0U);
  return {*seen, sim.client(0)};
}

TEST(target_cells, a_prompt_is_not_computed_again) {
  for (const auto ahead : {ahead_mode::off, ahead_mode::ahead, ahead_mode::outcomes}) {
    const watched computing = live_once(false, ahead).seen, reading = live_once(true, ahead).seen;
    EXPECT_EQ(computing.num_read, 0U);
    EXPECT_GT(reading.num_read, 0U);
    EXPECT_GE(computing.num_rows, reading.num_rows + 149) << static_cast<int>(ahead);
    if (ahead == ahead_mode::off) {
      EXPECT_LE(reading.num_rows, 4 * reading.num_right) << "a draft of 4 tokens costs 4 rows";
    }
  }
}

TEST(target_cells, a_beam_search_reads_those_of_its_prompt) {
  const one_life computing = live_once(false, ahead_mode::off, 3),
                 reading = live_once(true, ahead_mode::off, 3);
  EXPECT_GT(reading.seen.num_read, 0U);
  EXPECT_EQ(computing.seen.num_rows, reading.seen.num_rows + 149);
  EXPECT_EQ(computing.client.tokens, reading.client.tokens);
  EXPECT_EQ(computing.client.speculation->num_accepted_tokens,
            reading.client.speculation->num_accepted_tokens);
}

TEST(target_cells, features_are_those_of_each_hypothesis) {
  for (const char* const head : {"head", "head_dynamic", "head_path_static", "head_parallel_static"}) {
    simulation_options options;
    options.target = small_target();
    auto seen = std::make_shared<watched>();
    std::vector<simulated_drafter> drafters;
    drafters.push_back(watched_head(head, seen));
    simulation sim(options, std::move(drafters));
    sim.submit(search_number(0, 3, 24), drafter_index{1});
    ASSERT_TRUE(sim.run());
    EXPECT_GT(seen->num_right, 12U) << head;
    EXPECT_EQ(seen->num_wrong, 0U) << head;
    EXPECT_GT(sim.client(0).speculation->num_accepted_tokens, 0U) << head;
  }
}

generation_request random_request(std::uint64_t n) {
  auto request = request_number(static_cast<std::uint32_t>(n % 5), n % 2 == 0 ? 1.0F : 0.0F,
                                1 + static_cast<std::uint32_t>(n / 8 % 24));
  if (n % 3 == 0) // whole blocks, which the prefix cache may have
    while (request.prompt.size() < 32) request.prompt.push_back(request.prompt[request.prompt.size() / 2]);
  return request;
}

/// Requests come, leave and are preempted in a pool of one to two of the longest; actors die; messages and
/// completions come in any order.
void live(std::uint64_t seed, const std::shared_ptr<watched>& seen, std::uint64_t& num_preemptions) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto chance = [&](std::uint64_t one_in) { return random() % one_in == 0; };
  simulation_options options;
  options.seed = seed;
  options.shuffle = true;
  options.two_groups = chance(2);
  options.overlap = {static_cast<ahead_mode>(random() % 3)};
  options.num_guesses = 2;
  options.num_partitions = 2;
  options.block_size = std::array{1U, 4U, 16U}[random() % 3];
  const auto one = (64 + options.block_size - 1) / options.block_size;
  options.num_blocks = one + static_cast<std::uint32_t>(random() % (one + 1));
  options.max_running = 1 + random() % 6;
  options.target = small_target();
  std::vector<simulated_drafter> drafters;
  drafters.push_back(watched_worker(seen));
  for (const char* const head : {"head_dynamic", "head_path_static", "head_parallel_static"})
    drafters.push_back(watched_head(head, seen));
  for (const char* const without_worker : {"ngram", "lookahead"})
    drafters.push_back({drafter_called(without_worker, small_target()), 4, 0});
  simulation sim(options, std::move(drafters));
  static const std::array victims{
      "target_verifier/0", "draft_worker/0/1", "draft_worker/0/2", "draft_worker/0/3",
      "draft_worker/0/4",  "scheduler/0",      "kv_pool"};
  std::vector<generation_request> requests;
  std::vector<bool> cancelled;
  for (std::size_t step = 0; step < 4000; ++step) {
    if (requests.size() < 12 && chance(25)) {
      requests.push_back(random_request(random()));
      cancelled.push_back(false);
      sim.submit(requests.back(), drafter_index{1 + static_cast<std::uint32_t>(random() % 6)});
    }
    if (!requests.empty() && chance(120)) {
      const auto n = random() % requests.size();
      cancelled[n] = true;
      sim.cancel(n);
    }
    if (chance(250)) sim.kill(victims[random() % victims.size()]);
    if (!sim.step() && requests.size() == 12) break;
  }
  ASSERT_TRUE(sim.run(50'000)) << sim.scheduler().describe();
  for (std::size_t n = 0; n < requests.size(); ++n)
    if (!cancelled[n]) {
      ASSERT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n])) << n;
    }
  ASSERT_EQ(seen->num_wrong, 0U) << "a drafter read cells that were not its request's";
  ASSERT_EQ(sim.check_invariants(), "");
  for (kv::pool_id pool{0}; pool.value < sim.pools().num_pools(); ++pool.value)
    ASSERT_EQ(sim.pools().usage(pool).num_active, 0U) << "blocks of pool " << pool.value << " leaked";
  num_preemptions += sim.scheduler().counters().num_preemptions;
}

TEST(target_cells, are_those_of_the_request_in_every_random_life) {
  const auto seen = std::make_shared<watched>();
  std::uint64_t num_preemptions = 0;
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) live(seed, seen, num_preemptions);
  EXPECT_GT(num_preemptions, 20U);
  EXPECT_GT(seen->num_read, 2000U);
  EXPECT_GT(seen->num_right, 2000U);
}

} // namespace
} // namespace paceline
