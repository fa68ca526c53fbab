// A drafter made of the target's first layers, which copies what the target has computed.
#include "runtime/speculation/drafters/target_prefix.hpp"

#include "runtime/model/kv_cells.hpp"
#include "runtime/speculation/drafters/model_drafter.hpp"
#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace paceline::speculation::target_prefix_test {
namespace {

using test_support::counted_model;
using test_support::drafted_request;

constexpr std::uint32_t vocab = 30, block_size = drafted_request::block_size;

/// The target's pool of one request, as its own passes would fill it.
class target_pool_of {
 public:
  target_pool_of(const model::language_model& target, std::uint32_t num_blocks)
      : target_(&target), kv_(target.make_kv_storage(num_blocks, block_size)) {
    for (std::uint32_t b = 0; b < num_blocks; ++b) blocks_.push_back(block_id{(b * 7 + 3) % num_blocks});
  }

  /// Computes the cells of all `tokens` but the last one, as the pool of a request that has committed them.
  target_cells after(device::ops& ops, std::span<const token_id> tokens) {
    const auto end = static_cast<std::uint32_t>(tokens.size()) - 1;
    std::vector<device::batch_entry> rows;
    for (; num_final_ < end; ++num_final_)
      rows.push_back({tokens[num_final_], token_position{num_final_}, kv_slot{num_final_}, 0, 0, 0});
    const device::sequence_kv sequence{.blocks = blocks_};
    target_->forward(ops, {.rows = rows, .sequences = {&sequence, 1}, .paths = {}}, *kv_, {});
    return {kv_.get(), blocks_, num_final_};
  }

 private:
  const model::language_model* target_;
  std::unique_ptr<model::kv_storage> kv_;
  std::vector<block_id> blocks_;
  std::uint32_t num_final_ = 0;
};

std::unique_ptr<model_drafter> drafter_over(std::shared_ptr<const model::language_model> model, bool reads,
                                            config::tree_kind tree = config::tree_kind::chain) {
  const auto options = test::options_of("own layers", "self");
  return std::make_unique<model_drafter>(
      options, draft_network{.model = std::move(model)}, vocab,
      model_drafter_settings{.shape = {.kind = tree, .top_k = 3}, .reads_target_cells = reads});
}

std::vector<std::size_t> take(std::vector<std::size_t>& rows) { return std::exchange(rows, {}); }

std::vector<token_id> tokens_of(const draft& made) {
  return {made.tree.tokens().begin(), made.tree.tokens().end()};
}
std::vector<std::int32_t> parents_of(const draft& made) {
  return {made.tree.parents().begin(), made.tree.parents().end()};
}

TEST(target_prefix, a_long_prompt_costs_one_row) {
  const model::hash_model_config config{.vocab_size = vocab};
  auto counted = std::make_shared<counted_model>(config);
  const auto drafter = drafter_over(counted, true);
  drafted_request one(*drafter, {.temperature = 0}, 700, vocab);
  target_pool_of pool(*counted, 200);
  test::no_ops ops;
  const model::hash_model oracle(config);
  for (int round = 0; round < 3; ++round) {
    one.in_target = pool.after(ops, one.tokens);
    take(counted->rows_of_passes);
    const draft made = one.propose();
    EXPECT_EQ(take(counted->rows_of_passes), (std::vector<std::size_t>{1, 1, 1, 1}))
        << "its newest token's, and all draft tokens' but the last one's";
    ASSERT_EQ(made.tree.size(), 4U);
    one.commit(made.tree.tokens()); // all are right, and a bonus token
    const auto logits = one.logits_below(oracle, {});
    one.commit(std::vector{token_id{
        static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())}});
  }
}

TEST(target_prefix, drafts_are_those_of_cells_that_the_drafter_computes) {
  for (const auto tree : {config::tree_kind::chain, config::tree_kind::dynamic, config::tree_kind::optimal})
    for (const auto rule : {verification_rule::coupled, verification_rule::rejection}) {
      SCOPED_TRACE(::testing::Message()
                   << "tree " << static_cast<int>(tree) << " rule " << static_cast<int>(rule) << " seed 5");
      const model::hash_model_config config{.vocab_size = vocab};
      auto computing = std::make_shared<counted_model>(config),
           reading = std::make_shared<counted_model>(config);
      const auto left_drafter = drafter_over(computing, false, tree),
                 right_drafter = drafter_over(reading, true, tree);
      const sampling_params params{.temperature = 0.9F, .seed = 4};
      drafted_request left(*left_drafter, params, 40, vocab), right(*right_drafter, params, 40, vocab);
      left.rule = right.rule = rule;
      left.max_nodes = right.max_nodes = 10;
      const model::hash_model target(config);
      target_pool_of pool(target, 200);
      test::no_ops ops;
      std::mt19937_64 random(5);
      for (int round = 0; round < 40; ++round) {
        SCOPED_TRACE(round);
        left.draft_length = right.draft_length = 1 + static_cast<std::uint32_t>(random() % 6);
        right.in_target = random() % 5 == 0 ? target_cells{} : pool.after(ops, right.tokens);
        const draft one = left.propose(), other = right.propose();
        ASSERT_EQ(tokens_of(one), tokens_of(other));
        ASSERT_EQ(parents_of(one), parents_of(other));
        for (std::size_t i = 0; i < one.probs.size(); ++i)
          ASSERT_EQ(one.probs[i].probs, other.probs[i].probs);
        auto again = random; // both commit the same
        left.commit_some(one, random, vocab);
        right.commit_some(other, again, vocab);
      }
      const auto sum = [](const auto& of) {
        return std::accumulate(of->rows_of_passes.begin(), of->rows_of_passes.end(), std::size_t{0});
      };
      EXPECT_LT(sum(reading) + 40, sum(computing));
    }
}

TEST(target_prefix, cells_that_the_target_lacks_are_computed) {
  const model::hash_model_config config{.vocab_size = vocab};
  auto counted = std::make_shared<counted_model>(config);
  const auto drafter = drafter_over(counted, true);
  drafted_request one(*drafter, {.temperature = 0}, 100, vocab);
  one.draft_length = 1;
  const model::hash_model target(config);
  target_pool_of pool(target, 200);
  test::no_ops ops;
  one.in_target = pool.after(ops, std::span(one.tokens).first(90));
  one.propose();
  EXPECT_EQ(counted->rows_of_passes, std::vector<std::size_t>{100 - 89});
}

TEST(target_prefix, a_failed_pass_leaves_nothing_to_build_on) {
  const model::hash_model_config config{.vocab_size = vocab};
  auto counted = std::make_shared<counted_model>(config);
  const auto drafter = drafter_over(counted, true);
  drafted_request one(*drafter, {.temperature = 0}, 100, vocab);
  const model::hash_model target(config);
  target_pool_of pool(target, 200);
  test::no_ops ops;
  one.in_target = pool.after(ops, one.tokens);
  const auto expected = tokens_of(one.propose());
  take(counted->rows_of_passes);
  counted->fail_next_pass = true;
  EXPECT_THROW(one.propose(), std::runtime_error);
  EXPECT_EQ(tokens_of(one.propose()), expected);
  EXPECT_EQ(take(counted->rows_of_passes), (std::vector<std::size_t>{1, 1, 1, 1, 1}));
}

/// Long copies do not stop running requests, like prompts that are computed.
TEST(target_prefix, very_long_prompts_are_copied_in_several_calls) {
  const model::hash_model_config config{.vocab_size = vocab, .context_length = 1 << 20};
  const model::hash_model target(config);
  auto counted = std::make_shared<counted_model>(config);
  const auto drafter = drafter_over(counted, true);
  const auto kv = counted->make_kv_storage(1600, block_size);
  const sampling::pipeline pipeline({.temperature = 0}, {});
  test::no_ops ops;
  const std::size_t lengths[] = {max_copied_cells + 100, 20};
  std::vector<std::vector<token_id>> texts(2);
  std::vector<std::vector<block_id>> blocks(2);
  std::vector<target_pool_of> pools;
  std::vector<std::unique_ptr<drafter_session>> sessions;
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < lengths[r]; ++i)
      texts[r].emplace_back(static_cast<std::int32_t>(i * i % vocab));
    for (std::uint32_t b = 0; b <= lengths[r] / block_size + 1; ++b)
      blocks[r].emplace_back(static_cast<std::uint32_t>(1500 * r) + b);
    pools.emplace_back(target, static_cast<std::uint32_t>(lengths[r]) / block_size + 2);
    sessions.push_back(drafter->open(request_id{r + 1}));
  }
  std::vector<std::uint32_t> drafted;
  std::vector<bool> catching_up;
  sampling::token_counts counts;
  for (int call = 0; call < 2; ++call) {
    std::vector<draft_task> tasks(2);
    for (std::size_t r = 0; r < 2; ++r) {
      tasks[r].tokens = texts[r];
      tasks[r].sampling = &pipeline;
      tasks[r].counts = &counts;
      tasks[r].draft_length = 1;
      tasks[r].max_nodes = 1;
      tasks[r].blocks = blocks[r];
      tasks[r].session = sessions[r].get();
      tasks[r].target_cells = pools[r].after(ops, texts[r]);
    }
    drafter->propose(ops, kv.get(), tasks);
    for (const auto& task : tasks) {
      drafted.push_back(task.result.tree.size());
      catching_up.push_back(task.result.catching_up);
    }
  }
  EXPECT_EQ(drafted, (std::vector<std::uint32_t>{0, 1, 1, 1}));
  EXPECT_EQ(catching_up, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(counted->rows_of_passes, (std::vector<std::size_t>{1, 2}))
      << "and nothing was computed in its stead";
}

/// Bytes of all cells of a pool.
std::vector<std::byte> bytes_of(const model::kv_storage& kv) {
  const auto& cells = dynamic_cast<const model::kv_cells&>(kv);
  std::vector<std::byte> all;
  for (const device::kv_layer& layer : cells.layers())
    for (std::uint32_t b = 0; b < cells.num_blocks(); ++b) {
      const std::size_t heads = std::size_t{layer.num_heads} * layer.block_size;
      const std::size_t size = heads * layer.head_dim * traits_of(layer.type).value_bytes;
      const auto add = [&](const void* from, std::size_t index, std::size_t width, std::size_t num_bytes) {
        const auto* const at = static_cast<const std::byte*>(from) + index * width;
        all.insert(all.end(), at, at + num_bytes);
      };
      const auto width = traits_of(layer.type).value_bytes;
      add(layer.keys, layer.key_index(block_id{b}, 0, 0, 0), width, size);
      add(layer.values, layer.value_index(block_id{b}, 0, 0, 0), width, size);
      if (layer.key_scales == nullptr) continue;
      add(layer.key_scales, layer.scale_index(block_id{b}, 0, 0), sizeof(float), heads * sizeof(float));
      add(layer.value_scales, layer.scale_index(block_id{b}, 0, 0), sizeof(float), heads * sizeof(float));
    }
  return all;
}

/// What makes the copies sound: a layer's keys and values are the same bits in the whole model and in its
/// first layers, in one pass over a prompt or one row at a time.
TEST(target_prefix, cells_copied_are_the_bits_of_cells_computed) {
  for (const auto arch : {model::architecture::llama, model::architecture::gemma3})
    for (const kv_type type : {kv_type::f16, kv_type::q8}) {
      SCOPED_TRACE(std::string(to_string(arch)) + (type == kv_type::q8 ? " q8" : " f16"));
      test::tiny_model made;
      made.arch = arch;
      made.type = device::tensor_type::q4_1;
      made.num_layers = 4;
      const auto bytes = test::make_tiny_gguf(made).build();
      const auto file = model::gguf_file::parse(bytes, "tiny.gguf");
      ASSERT_TRUE(file);
      test::cpu_model whole(*file, {.level = {}, .kv_type = type});
      drafter_parts parts{.options = test::options_of("own layers", "self"),
                          .target_vocab_size = made.vocab_size};
      parts.options.layers = 3;
      parts.target = std::shared_ptr<const model::language_model>(std::shared_ptr<void>(), &whole.get());
      const auto drafter = drafter_registry::with_built_in().make(parts).value();
      const sampling_params params{.temperature = 0.8F, .seed = 9};
      drafted_request left(*drafter, params, 20, 200, 16), right(*drafter, params, 20, 200, 16);
      for (auto* one : {&left, &right}) one->kv().poison(one->blocks);
      target_pool_of pool(whole.get(), 16);
      std::mt19937_64 random(2);
      while (left.tokens.size() < 50) {
        SCOPED_TRACE(left.tokens.size());
        draft one, other;
        whole.run([&](device::ops& ops) {
          right.in_target = pool.after(ops, right.tokens);
          one = left.propose_on(ops);
          other = right.propose_on(ops);
        });
        ASSERT_EQ(tokens_of(one), tokens_of(other));
        ASSERT_FALSE(one.tree.empty());
        ASSERT_TRUE(bytes_of(left.kv()) == bytes_of(right.kv()));
        auto again = random;
        left.commit_some(one, random, 200);
        right.commit_some(other, again, 200);
      }
    }
}

} // namespace
} // namespace paceline::speculation::target_prefix_test
