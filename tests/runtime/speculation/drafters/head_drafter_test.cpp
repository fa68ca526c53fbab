// Drafters with a trained head that reads only the newest state.
#include "runtime/model/kv_cells.hpp"
#include "runtime/speculation/drafters/model_drafter.hpp"
#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/head_test.hpp"

namespace paceline::speculation {
namespace {

class head_drafter_test : public test::head_test {
 protected:
  static constexpr std::uint32_t block_size = test_support::drafted_request::block_size, num_blocks = 12,
                                 prompt_length = 40;

  std::unique_ptr<drafter> make(const std::string& kind, const test::tiny_head& files,
                                config::tree_kind tree) {
    drafter_parts parts;
    parts.options = test::options_of(kind, kind);
    parts.options.tree = tree;
    parts.options.tree_top_k = 3;
    parts.options.max_tree_nodes = 8;
    parts.target_vocab_size = vocab;
    auto loaded = load(kind, files);
    if (!loaded) throw std::runtime_error(loaded.error().message());
    parts.own_head = *loaded;
    target_kv_ = target_->get().make_kv_storage(num_blocks, block_size, parts.own_head->taps());
    test::make_up(*target_kv_->features());
    return drafter_registry::with_built_in().make(parts).value();
  }

  /// Drafts after a prompt with a lease of this number of blocks, then after two more tokens.
  std::vector<draft> drafts(drafter& by, std::uint32_t num_leased) {
    test_support::drafted_request request(by, {.seed = 3}, prompt_length, vocab);
    request.blocks.resize(num_leased);
    std::vector<block_id> in_order;
    for (std::uint32_t i = 0; i < num_blocks; ++i) in_order.push_back(block_id{i});
    std::vector<draft> made;
    for (std::uint32_t more = 0; more < 2; ++more) {
      if (more > 0) request.commit(std::vector<token_id>{token_id{7}, token_id{11}});
      request.in_target = {target_kv_.get(), in_order, static_cast<std::uint32_t>(request.tokens.size()) - 1};
      target_->run([&](device::ops& ops) { made.push_back(request.propose_on(ops)); });
    }
    return made;
  }

  /// Clears the target's states of all positions but these.
  void forget_states_but(const std::vector<std::uint32_t>& kept) {
    const auto& features = *target_kv_->features();
    for (std::uint32_t position = 0; position < num_blocks * block_size; ++position)
      if (std::ranges::find(kept, position) == kept.end())
        std::fill_n(features.values + position * features.width(), features.width(), 0.0F);
  }

  std::unique_ptr<model::kv_storage> target_kv_;
};

TEST_F(head_drafter_test, needs_no_cells_for_the_text) {
  for (const auto tree : {config::tree_kind::chain, config::tree_kind::dynamic})
    for (const auto& [kind, files] : {std::pair{"hydra", test::tiny_head::hydra(hidden, vocab)},
                                      {"mlp_speculator", test::tiny_head::mlp_speculator(hidden, vocab)}}) {
      const auto drafter = make(kind, files, tree);
      const std::uint32_t levels = kind == std::string("hydra") ? 2 : 3;
      EXPECT_FALSE(drafter->traits().caches_text) << kind;
      const std::uint32_t cells = 1 + drafter->own_positions(64);
      EXPECT_LE(cells, 1 + 3 * levels) << kind;
      const auto ample = drafts(*drafter, 100);
      const auto scarce = drafts(*drafter, (cells + block_size - 1) / block_size);
      ASSERT_EQ(ample.size(), scarce.size());
      for (std::size_t i = 0; i < ample.size(); ++i) {
        EXPECT_GE(ample[i].tree.size(), levels) << kind;
        EXPECT_TRUE(std::ranges::equal(ample[i].tree.tokens(), scarce[i].tree.tokens())) << kind;
        EXPECT_TRUE(std::ranges::equal(ample[i].tree.parents(), scarce[i].tree.parents())) << kind;
      }
      EXPECT_FALSE(std::ranges::equal(ample[0].tree.tokens(), ample[1].tree.tokens())) << kind;
      forget_states_but({prompt_length - 2, prompt_length});
      EXPECT_TRUE(std::ranges::equal(ample[1].tree.tokens(), drafts(*drafter, 100)[1].tree.tokens())) << kind;
    }
}

TEST_F(head_drafter_test, a_text_of_one_token_has_no_row_to_draft_from) {
  // This is the case if the first round of a prompt of one token was lost.
  for (const auto& [kind, files] : {std::pair{"medusa", test::tiny_head::medusa(hidden, vocab)},
                                    {"hydra", test::tiny_head::hydra(hidden, vocab)}}) {
    const auto drafter = make(kind, files, config::tree_kind::chain);
    test_support::drafted_request request(*drafter, {.seed = 3}, 1, vocab);
    const std::vector<block_id> blocks{block_id{0}};
    for (const std::uint32_t num_computed : {0U, 1U}) {
      request.in_target = {target_kv_.get(), blocks, num_computed};
      target_->run([&](device::ops& ops) { EXPECT_TRUE(request.propose_on(ops).tree.empty()) << kind; });
    }
  }
}

TEST_F(head_drafter_test, drafts_all_levels_that_the_head_gives_where_no_length_is_named) {
  using test::tiny_head;
  const auto length_of = [&](const std::string& kind, const tiny_head& files) {
    return make(kind, files, config::tree_kind::chain)->traits().default_draft_length;
  };
  EXPECT_EQ(length_of("dflash", tiny_head::dflash(hidden, vocab)), 3U) << "slot 0 gives none";
  EXPECT_EQ(length_of("dspark", tiny_head::dspark(hidden, vocab, "gated")), 4U);
  EXPECT_EQ(length_of("medusa", tiny_head::medusa(hidden, vocab, 7)), 7U);
  EXPECT_EQ(length_of("hydra", tiny_head::hydra(hidden, vocab, 2)), 2U);
  EXPECT_EQ(length_of("mlp_speculator", tiny_head::mlp_speculator(hidden, vocab)), 3U);
  EXPECT_EQ(length_of("eagle3", tiny_head::eagle3(hidden, hidden, vocab, 100)), 5U);
  EXPECT_EQ(length_of("mtp", tiny_head::mtp_next(hidden, vocab)), 5U);
}

TEST_F(head_drafter_test, caches_the_text_for_a_layer_over_it) {
  const auto drafter =
      make("hydra", test::tiny_head::hydra_prefix(hidden, vocab, ffn), config::tree_kind::chain);
  EXPECT_TRUE(drafter->traits().caches_text);
  EXPECT_TRUE(drafts(*drafter, 2)[0].tree.empty());
  EXPECT_EQ(drafts(*drafter, 100)[0].tree.size(), 2U);
}

} // namespace
} // namespace paceline::speculation
