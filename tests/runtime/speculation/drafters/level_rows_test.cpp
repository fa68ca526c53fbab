// Heads whose block gives a part of every level, to which rows of the draft add (DSpark), and drafts that end
// when a head is not confident.
#include "runtime/speculation/drafters/model_drafter.hpp"

#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace paceline::speculation::level_rows_test {
namespace {

constexpr std::uint32_t vocab = 20, num_slots = 5, cells_of_block = 4;

/// After a text, slot j predicts token j, and with a little less weight token j + 10. A row of token t adds
/// to token t + 1 enough to make it the likeliest one if t is odd. The confidence falls with the level, and
/// the row gives it.
class made_up_head final : public model::draft_head {
 public:
  explicit made_up_head(bool is_parallel) : is_parallel_(is_parallel), pool_({.vocab_size = vocab}) {
    info_ = pool_.info();
  }
  const model::model_info& info() const noexcept override { return info_; }
  model::head_traits traits() const noexcept override {
    return {.max_levels = num_slots - 1,
            .is_parallel = is_parallel_,
            .num_block_rows = num_slots,
            .block_is_causal = false,
            .first_level_row = 2,
            .has_confidence = true};
  }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                     std::span<const layer_index> taps = {}) const override {
    return pool_.make_kv_storage(num_blocks, block_size, taps);
  }
  std::span<const layer_index> taps() const noexcept override { return taps_; }
  std::span<const token_id> target_ids() const noexcept override { return {}; }
  std::uint32_t num_embedded() const noexcept override { return vocab; }

  void forward(device::ops&, const device::row_batch& batch, const model::head_features& features,
               model::kv_storage* kv, const model::head_outputs& outputs) const override {
    model::check_batch(batch, *kv);
    std::ranges::fill(outputs.logits, 0.0F);
    passes.emplace_back();
    for (std::size_t i = 0; i < outputs.logit_rows.size(); ++i) {
      const std::uint32_t r = outputs.logit_rows[i];
      float* const logits = outputs.logits.data() + i * vocab;
      const auto token = static_cast<std::uint32_t>(batch.rows[r].token.value);
      const bool is_block = features.of_target != nullptr;
      const std::uint32_t level = is_block ? features.levels[r] - 2 : features.levels[r];
      passes.back().push_back(level);
      if (is_block) {
        logits[level + 1] = 2;
        logits[level + 11] = 1;
      }
      if (!is_block && token % 2 == 1) logits[(token + 1) % vocab] = 5;
      if (!outputs.confidences.empty()) outputs.confidences[i] = 0.9F - 0.2F * static_cast<float>(level);
    }
  }

  mutable std::vector<std::vector<std::uint32_t>> passes; ///< of each pass the levels of its rows with logits

 private:
  bool is_parallel_;
  model::hash_model pool_;
  model::model_info info_;
  std::vector<layer_index> taps_{layer_index{0}};
};

class level_rows_test : public testing::Test {
 protected:
  void make(bool is_parallel, float threshold, tree_shape shape = {}, std::uint32_t nodes = 64) {
    head = std::make_shared<made_up_head>(is_parallel);
    drafter.emplace(test::options_of("block", "dspark"), draft_network{.head = head}, vocab,
                    model_drafter_settings{.shape = std::move(shape),
                                           .max_tree_nodes = nodes,
                                           .confidence_threshold = threshold});
    own = head->make_kv_storage(40, cells_of_block);
    target = head->make_kv_storage(40, cells_of_block, head->taps());
    session = drafter->open(request_id{1});
  }

  draft propose(std::uint32_t draft_length, std::uint32_t num_cells = 100) {
    std::vector<draft_task> tasks(1);
    sampling::token_counts counts;
    counts.add_prompt(tokens);
    std::vector<block_id> blocks, target_blocks;
    for (std::uint32_t b = 0; b < num_cells / cells_of_block; ++b) blocks.emplace_back(b);
    for (std::uint32_t b = 0; b < 20; ++b) target_blocks.emplace_back(b);
    tasks[0].tokens = tokens;
    tasks[0].sampling = &pipeline;
    tasks[0].counts = &counts;
    tasks[0].prompt_length = 1;
    tasks[0].draft_length = draft_length;
    tasks[0].max_nodes = token_tree::max_nodes;
    tasks[0].blocks = blocks;
    tasks[0].session = session.get();
    tasks[0].target_cells = {target.get(), target_blocks, static_cast<std::uint32_t>(tokens.size()) - 1};
    head->passes.clear();
    test::no_ops ops;
    drafter->propose(ops, own.get(), tasks);
    return std::move(tasks[0].result);
  }
  static std::vector<std::int32_t> ids(const draft& of) {
    std::vector<std::int32_t> all;
    for (const token_id token : of.tree.tokens()) all.push_back(token.value);
    return all;
  }

  std::shared_ptr<made_up_head> head;
  std::optional<model_drafter> drafter;
  std::unique_ptr<model::kv_storage> own, target;
  std::unique_ptr<drafter_session> session;
  sampling::pipeline pipeline{{.temperature = 0}, {}};
  std::vector<token_id> tokens{token_id{4}, token_id{7}, token_id{9}};
};

using ids_of = std::vector<std::int32_t>;
using passes_of = std::vector<std::vector<std::uint32_t>>;

TEST_F(level_rows_test, rows_of_a_draft_add_to_what_the_block_gave_their_level) {
  make(false, 0);
  EXPECT_EQ(ids(propose(4)), (ids_of{1, 2, 3, 4})) << "1 adds to 2, 3 to 4, 2 nothing: the block says 3";
  EXPECT_EQ(head->passes, (passes_of{{0, 1, 2, 3}, {1}, {2}, {3}}));
  EXPECT_EQ(ids(propose(2)), (ids_of{1, 2}));
  EXPECT_EQ(head->passes, (passes_of{{0, 1}, {1}}));
}

TEST_F(level_rows_test, nodes_of_a_tree_get_what_their_own_path_adds) {
  const std::vector<std::string> paths{"0", "1", "0.0", "1.0", "1.0.0"};
  make(false, 0, {.kind = config::tree_kind::fixed, .paths = *parse_template(paths)});
  const draft made = propose(3);
  // 1 and 11 are drafted first. After 11 the next token is 12; after 1 it is 2. 12 adds nothing.
  EXPECT_EQ(ids(made), (ids_of{1, 11, 2, 12, 3}));
  EXPECT_EQ(head->passes.size(), 3U);
}

TEST_F(level_rows_test, a_draft_ends_before_a_token_of_which_the_head_is_not_sure) {
  for (const bool is_parallel : {false, true}) {
    for (const auto& [threshold, length] :
         {std::pair{0.0F, 4U}, {0.25F, 4U}, {0.35F, 3U}, {0.8F, 1U}, {0.95F, 0U}}) {
      make(is_parallel, threshold);
      const draft made = propose(4);
      EXPECT_EQ(made.tree.size(), length) << threshold;
      EXPECT_EQ(made.plan.levels, 4U) << "what was planned does not depend on what was drafted";
    }
  }
}

TEST_F(level_rows_test, it_says_how_many_cells_a_draft_needs) {
  make(false, 0);
  EXPECT_EQ(drafter->own_positions(4), num_slots + 4);
  make(true, 0);
  EXPECT_EQ(drafter->own_positions(4), num_slots);
}

TEST_F(level_rows_test, a_lease_without_room_behind_the_block_makes_the_draft_shorter) {
  make(false, 0);
  EXPECT_EQ(ids(propose(4, 8)), (ids_of{1, 2})) << "2 cells of the text, 5 of the block, one of the draft";
  EXPECT_EQ(ids(propose(4, 12)), (ids_of{1, 2, 3, 4}));
  EXPECT_TRUE(ids(propose(4, 4)).empty()) << "no room for the block";
}

} // namespace
} // namespace paceline::speculation::level_rows_test
