#include "runtime/speculation/drafters/vocabulary_bridge.hpp"

#include "runtime/speculation/drafters/registry.hpp"
#include "tests/support/renamed_model.hpp"
#include "tests/support/simulated_decoding.hpp"
#include "tests/support/test_drafters.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace paceline::speculation {
namespace {

using method = vocabulary_bridge::method;
using shared_vocabulary = std::shared_ptr<const tokenizer::tokenizer>;

shared_vocabulary make(tokenizer::vocabulary_data data) {
  data.add_bos = false;
  data.add_space_prefix = false;
  return std::make_shared<const tokenizer::tokenizer>(
      tokenizer::tokenizer::from_vocabulary(std::move(data)).value());
}

/// 256 bytes, "th" 256, "the" 257, " the" 258.
shared_vocabulary target_vocabulary(std::vector<std::string> control = {}) {
  return make(test::make_vocabulary(
      test::tiny_bpe{.merges = {{"t", "h"}, {"th", "e"}, {" ", "the"}}, .control = std::move(control)}));
}

/// Three special tokens, 256 bytes from 3 on, then "t", "h", "e", "th", "he", "the", " ", " the".
shared_vocabulary own_vocabulary() {
  return make(test::make_vocabulary(test::tiny_spm{
      .pieces = {
          {"t", -1}, {"h", -2}, {"e", -3}, {"th", -4}, {"he", -5}, {"the", -6}, {" ", -7}, {" the", -8}}}));
}

std::uint32_t size_of(const shared_vocabulary& vocabulary) {
  return static_cast<std::uint32_t>(vocabulary->size());
}

std::shared_ptr<const vocabulary_bridge> bridge_of(method how, const shared_vocabulary& own,
                                                   const shared_vocabulary& target) {
  return vocabulary_bridge::make(how, own, target, size_of(own), size_of(target)).value();
}

std::string text(const shared_vocabulary& vocabulary, const std::vector<token_id>& tokens) {
  std::string all;
  for (const token_id token : tokens) all += vocabulary->piece(token);
  return all;
}

std::vector<token_id> spelled(const shared_vocabulary& vocabulary, const std::string& what) {
  return vocabulary->encode(what, {.add_special = false, .parse_special = false}).value();
}

TEST(vocabulary_bridge, tokens_of_the_same_bytes_are_the_same_token) {
  const auto own = own_vocabulary();
  const auto target = target_vocabulary({"<begin>", "<end>"});
  const auto bridge = bridge_of(method::intersection, own, target);
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(target->size()); ++id) {
    const token_id same = bridge->own_token(token_id{id});
    if (target->piece(token_id{id}) == "<begin>") {
      EXPECT_EQ(same.value, -1) << "a control token is not its spelling";
    } else if (target->piece(token_id{id}) == "<end>") {
      EXPECT_EQ(same, *own->eos()) << "both end a generation";
    } else {
      EXPECT_EQ(own->piece(same), target->piece(token_id{id})) << id;
    }
  }
  EXPECT_EQ(bridge->own_token(token_id{-1}).value, -1);
  EXPECT_EQ(bridge->own_token(token_id{100000}).value, -1);
}

TEST(vocabulary_bridge, scores_go_to_the_targets_ids_and_all_others_have_none) {
  const auto own = own_vocabulary();
  const auto target = target_vocabulary({"<begin>", "<end>"});
  const auto bridge = bridge_of(method::intersection, own, target);
  std::vector<float> scores(own->size());
  for (std::size_t id = 0; id < scores.size(); ++id) scores[id] = static_cast<float>(id);
  std::vector<float> found(target->size());
  bridge->translate(scores, found);
  std::size_t num_known = 0;
  for (std::size_t id = 0; id < found.size(); ++id) {
    const token_id same = bridge->own_token(token_id{static_cast<std::int32_t>(id)});
    const float expected =
        same.value < 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(same.value);
    EXPECT_EQ(found[id], expected) << id;
    num_known += same.value >= 0 ? 1 : 0;
  }
  EXPECT_EQ(num_known, bridge->num_shared());
}

TEST(vocabulary_bridge, a_token_that_the_drafter_lacks_is_spelled_in_its_own) {
  const auto own = make(test::make_vocabulary(
      test::tiny_spm{.pieces = {{"t", -1}, {"h", -2}, {"th", -3}, {"e", -4}, {" ", -5}}}));
  const auto target = target_vocabulary();
  const auto bridge = bridge_of(method::intersection, own, target);
  std::vector<token_id> context;
  const std::vector<token_id> committed{token_id{256}, token_id{258}, token_id{'x'}};
  bridge->extend(context, std::span(committed).first(1), 0);
  EXPECT_EQ(context.size(), 1U);
  bridge->extend(context, committed, 1);
  EXPECT_EQ(text(own, context), "th thex");
}

TEST(vocabulary_bridge, text_that_goes_on_is_split_as_if_it_were_one) {
  const auto own = own_vocabulary();
  const auto target = target_vocabulary();
  const auto bridge = bridge_of(method::retokenise, own, target);
  const std::string whole = "the thththe xx the h the ththe thexthe";
  std::vector<token_id> committed;
  for (const char byte : whole) committed.push_back(token_id{byte}); // one target token a byte
  for (std::size_t step = 1; step < 6; ++step) {
    std::vector<token_id> context;
    for (std::size_t done = 0; done < committed.size();) {
      const std::size_t next = std::min(done + step, committed.size());
      bridge->extend(context, std::span(committed).first(next), done);
      done = next;
      EXPECT_EQ(text(own, context), whole.substr(0, done)) << "step " << step;
    }
    EXPECT_EQ(context, spelled(own, whole)) << "step " << step;
  }
}

TEST(vocabulary_bridge, drafted_text_becomes_the_tokens_that_the_target_would_use) {
  const auto own = own_vocabulary();
  const auto target = target_vocabulary();
  const auto bridge = bridge_of(method::retokenise, own, target);
  const auto committed = spelled(target, "x the");
  EXPECT_EQ(bridge->target_tokens(committed, spelled(own, " the th")), spelled(target, " the th"));
  // The draft would change the tokenisation of the last word; it nevertheless continues after the committed
  // tokens.
  const auto half = spelled(target, "x t");
  EXPECT_EQ(text(target, bridge->target_tokens(half, spelled(own, "he"))), "he");
  EXPECT_TRUE(bridge->target_tokens(committed, {}).empty());
  EXPECT_EQ(text(target, bridge->target_tokens({}, spelled(own, "the"))), "the");
}

/// The roles of a chat: "<user>" is a token in both vocabularies, "<bot>" only in the target's.
struct chat {
  shared_vocabulary own = make(test::make_vocabulary(
      test::tiny_spm{.pieces = {{"t", -1}, {"h", -2}, {"e", -3}, {"th", -4}, {"the", -5}, {" ", -6}},
                     .control = {"<user>"}}));
  shared_vocabulary target = target_vocabulary({"<begin>", "<user>", "<bot>", "<end>"});

  token_id control(const shared_vocabulary& of, const std::string& name) const {
    for (std::int32_t id = 0;; ++id)
      if (of->piece(token_id{id}) == name) return token_id{id};
  }
  std::vector<token_id> text() const {
    return {control(target, "<begin>"),
            control(target, "<user>"),
            token_id{257},
            control(target, "<bot>"),
            token_id{258},
            control(target, "<end>"),
            control(target, "<user>")};
  }
};

TEST(vocabulary_bridge, the_drafter_sees_who_speaks) {
  const chat c;
  for (const auto how : {method::intersection, method::retokenise}) {
    const auto bridge = bridge_of(how, c.own, c.target);
    const auto committed = c.text();
    std::vector<token_id> at_once, step_by_step;
    bridge->extend(at_once, committed, 0);
    EXPECT_EQ(text(c.own, at_once), "<user>the<bot> the</s><user>");
    EXPECT_EQ(std::ranges::count(at_once, c.control(c.own, "<user>")), 2) << "a token, not its spelling";
    EXPECT_EQ(std::ranges::count(at_once, *c.own->eos()), 1);
    for (std::size_t i = 0; i < committed.size(); ++i)
      bridge->extend(step_by_step, std::span(committed).first(i + 1), i);
    EXPECT_EQ(text(c.own, step_by_step), text(c.own, at_once));
    if (how == method::retokenise) {
      EXPECT_EQ(step_by_step, at_once);
    }
  }
}

TEST(vocabulary_bridge, a_drafted_control_token_is_the_targets_and_ends_the_draft) {
  const chat c;
  const auto bridge = bridge_of(method::retokenise, c.own, c.target);
  const auto committed = c.text();
  auto drafted = spelled(c.own, "the");
  drafted.push_back(c.control(c.own, "<user>"));
  for (const token_id token : spelled(c.own, "the")) drafted.push_back(token);
  EXPECT_EQ(bridge->target_tokens(committed, drafted),
            (std::vector{token_id{257}, c.control(c.target, "<user>")}));
  EXPECT_EQ(bridge->target_tokens(committed, std::vector{*c.own->eos()}),
            std::vector{c.control(c.target, "<end>")});
}

TEST(vocabulary_bridge, vocabularies_with_nothing_in_common_are_refused) {
  const auto own = own_vocabulary();
  const auto target = target_vocabulary();
  const auto bridge = vocabulary_bridge::make(method::intersection, own, target, 3, size_of(target));
  ASSERT_FALSE(bridge);
  EXPECT_NE(bridge.error().message().find("in common"), std::string::npos);
}

drafter_parts parts_for(const shared_vocabulary& own, const shared_vocabulary& target, bool right) {
  // The drafter is the target with its own vocabulary's ids, or another model.
  const auto bridge = bridge_of(method::intersection, own, target);
  std::vector<std::int32_t> inner(own->size(), -1);
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(target->size()); ++id)
    inner[static_cast<std::size_t>(bridge->own_token(token_id{id}).value)] = id;
  model::hash_model_config config{.vocab_size = size_of(target), .memory = 3};
  config.salt = right ? 0 : 9;
  drafter_parts parts{.options = test::options_of("other", "model"),
                      .own_model = std::make_shared<test::renamed_model>(config, inner),
                      .target_vocab_size = size_of(target)};
  parts.own_vocabulary = own;
  parts.target_vocabulary = target;
  return parts;
}

/// Exactness with both methods, and full acceptance if the drafter is the target with another vocabulary.
TEST(vocabulary_bridge, drafts_across_vocabularies_are_exact) {
  const auto own = own_vocabulary();
  const auto target = target_vocabulary();
  const model::hash_model oracle({.vocab_size = size_of(target), .memory = 3});
  for (const auto vocabulary : {config::draft_vocabulary::intersection, config::draft_vocabulary::retokenise})
    for (const bool right : {true, false})
      for (const auto tree : {config::tree_kind::chain, config::tree_kind::dynamic})
        for (const float temperature : {0.0F, 1.0F}) {
          if (vocabulary == config::draft_vocabulary::retokenise && tree != config::tree_kind::chain)
            continue;
          SCOPED_TRACE(::testing::Message() << static_cast<int>(vocabulary) << " right " << right << " tree "
                                            << static_cast<int>(tree) << " temperature " << temperature);
          drafter_parts parts = parts_for(own, target, right);
          parts.options.vocabulary = vocabulary;
          parts.options.tree = tree;
          parts.options.max_tree_nodes = 12;
          const auto made = drafter_registry::with_built_in().make(parts).value();
          std::vector<generation_request> requests(2);
          for (std::size_t i = 0; i < requests.size(); ++i) {
            requests[i].prompt = spelled(target, i == 0 ? "the" : "th the x the ththe");
            requests[i].sampling.temperature = temperature;
            requests[i].sampling.seed = 60 + i;
            requests[i].stop.max_tokens = 50;
          }
          const auto outputs = test::decode_speculatively(oracle, *made, requests);
          for (std::size_t i = 0; i < requests.size(); ++i) {
            EXPECT_EQ(outputs[i].tokens, test::decode_plainly(oracle, requests[i]));
            EXPECT_GT(outputs[i].num_draft_tokens, 0U);
            if (right && vocabulary == config::draft_vocabulary::intersection &&
                tree == config::tree_kind::chain) {
              EXPECT_EQ(outputs[i].num_accepted_tokens, outputs[i].num_draft_tokens);
            }
          }
        }
}

/// If the drafter's own text is longer than the lease, its end suffices.
TEST(vocabulary_bridge, a_long_text_keeps_its_end_within_the_lease) {
  const auto own = make(test::make_vocabulary(test::tiny_spm{}));
  const auto target = target_vocabulary(); // " the" is one token here, four there
  const model::hash_model oracle({.vocab_size = size_of(target), .memory = 2, .sharpness = 3.0F});
  drafter_parts parts{
      .options = test::options_of("other", "model"),
      .own_model = std::make_shared<model::hash_model>(model::hash_model_config{.vocab_size = size_of(own)}),
      .target_vocab_size = size_of(target)};
  parts.own_vocabulary = own;
  parts.target_vocabulary = target;
  parts.options.vocabulary = config::draft_vocabulary::intersection;
  const auto made = drafter_registry::with_built_in().make(parts).value();
  generation_request request;
  for (int i = 0; i < 200; ++i) request.prompt.push_back(token_id{258});
  request.sampling.temperature = 0;
  request.stop.max_tokens = 60;
  const auto output = test::decode_speculatively(oracle, *made, {&request, 1});
  EXPECT_EQ(output[0].tokens, test::decode_plainly(oracle, request));
  EXPECT_GT(output[0].num_draft_tokens, 60U);
}

TEST(vocabulary_bridge, needs_both_tokenizers_and_chains_for_text) {
  drafter_parts parts = parts_for(own_vocabulary(), target_vocabulary(), true);
  parts.options.vocabulary = config::draft_vocabulary::retokenise;
  parts.options.tree = config::tree_kind::optimal;
  EXPECT_NE(drafter_registry::with_built_in().make(parts).error().message().find("chain"), std::string::npos);
  parts.options.tree = config::tree_kind::chain;
  parts.own_vocabulary = nullptr;
  EXPECT_NE(drafter_registry::with_built_in().make(parts).error().message().find("tokenizers"),
            std::string::npos);
}

} // namespace
} // namespace paceline::speculation
