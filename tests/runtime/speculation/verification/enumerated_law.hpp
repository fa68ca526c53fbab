#pragma once

#include "runtime/speculation/verification/verification.hpp"
#include "tests/support/enumerated_dice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

/// The distribution of a round's committed tokens, by enumeration of every draft and every decision with its
/// probability in double precision: exact, not sampled.
namespace paceline::speculation::test_support {

constexpr std::size_t vocab = 3;
using path = std::vector<token_id>;

/// A model with a vocabulary of three: different logits after every context, some tokens impossible, some
/// likely.
class random_model {
 public:
  random_model(std::uint32_t seed, float sharpness) : seed_(seed), sharpness_(sharpness) {}

  std::vector<float> logits(const path& context, std::uint32_t variant = 0) const {
    std::uint32_t key = seed_ * 31 + variant;
    for (const token_id token : context) key = key * 7 + static_cast<std::uint32_t>(token.value) + 1;
    std::mt19937 engine(key);
    std::uniform_real_distribution<float> uniform(-sharpness_, sharpness_);
    std::vector<float> row(vocab);
    for (float& logit : row) logit = uniform(engine);
    if (engine() % 8 == 0) row[engine() % vocab] = -std::numeric_limits<float>::infinity();
    return row;
  }

 private:
  std::uint32_t seed_;
  float sharpness_;
};

/// True if `token` is allowed. After every output, one token of the three is not allowed.
inline bool is_allowed(const path& output, token_id token) {
  std::size_t sum = output.size();
  for (const token_id before : output) sum += static_cast<std::size_t>(before.value);
  return sum % vocab != static_cast<std::size_t>(token.value);
}

class one_forbidden final : public constraint_cursor {
 public:
  std::span<const std::uint32_t> allowed(std::span<const token_id> output,
                                         std::span<const token_id> draft_path) override {
    path all(output.begin(), output.end());
    all.insert(all.end(), draft_path.begin(), draft_path.end());
    mask_[0] = 0;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(vocab); ++t)
      if (is_allowed(all, token_id{t})) mask_[0] |= 1U << static_cast<std::uint32_t>(t);
    return mask_;
  }
  std::size_t num_allowed(std::span<const token_id>, std::span<const token_id>,
                          std::span<const token_id>) override {
    return 0; // not called by rules
  }
  std::optional<token_id> append_forced(std::span<const token_id>, std::size_t,
                                        std::vector<token_id>&) override {
    return std::nullopt;
  }

 private:
  std::array<std::uint32_t, 1> mask_{};
};

/// How siblings are chosen.
enum class siblings { replaced, distinct, of_several_drafters, certain };

struct setting {
  std::vector<std::int32_t> parents;
  siblings kind = siblings::replaced;
  sampling_params params = {};
  bool constrained = false; ///< by `one_forbidden`; the drafter does not know
};

/// One target, one drafter, one tree shape.
class world {
 public:
  world(setting chosen, std::uint32_t seed)
      : chosen_(std::move(chosen)), target_(seed, 1.5F), drafter_(seed + 5000, 1.5F),
        pipeline_(chosen_.params, {}) {
    counts_.add_prompt(prompt());
    num_levels_ = 1;
    for (const std::int32_t parent : chosen_.parents) shape_.add(token_id{0}, parent);
    for (const std::uint32_t depth : shape_.depths())
      num_levels_ = std::max<std::size_t>(num_levels_, depth + 2);
  }

  const sampling::pipeline& pipeline() const { return pipeline_; }

  /// The target's probabilities after `context` in plain decoding.
  std::vector<double> target_probs(const path& context) const {
    sampling::token_counts counts = counts_;
    for (const token_id token : context) counts.add_output(token);
    std::vector<float> row = target_.logits(context);
    for (std::size_t t = 0; chosen_.constrained && t < vocab; ++t)
      if (!is_allowed(context, token_id{static_cast<std::int32_t>(t)}))
        row[t] = -std::numeric_limits<float>::infinity();
    EXPECT_TRUE(
        pipeline_.process(row, {.committed = &counts,
                                .position = token_position{4 + static_cast<std::uint32_t>(context.size())},
                                .output_index = static_cast<std::uint32_t>(context.size())}));
    const remaining_target whole(row);
    std::vector<double> probs(vocab);
    for (std::size_t i = 0; i < vocab; ++i) probs[i] = whole.prob_of(token_id{static_cast<std::int32_t>(i)});
    return probs;
  }

  /// The draft probabilities of the first draft token.
  std::vector<double> draft_probs() const {
    draft first;
    first.probs.push_back(distribution(first, token_tree::root));
    first.tree.add(first.probs[0].tokens[0], token_tree::root);
    std::vector<double> probs(vocab);
    for (std::size_t i = 0; i < vocab; ++i)
      probs[i] = draft_side(first, 0).prob_of(token_id{static_cast<std::int32_t>(i)});
    return probs;
  }

  using rule = std::function<verdict(const draft&, const verification_context&, const target_row&, dice&)>;

  /// Probability of every sequence of as many tokens as the tree has levels, plus one; the last token is
  /// first in the index. The target's distribution completes sequences that a round leaves shorter.
  std::vector<double> law(const rule& decide) {
    law_.assign(power(vocab, num_levels_), 0.0);
    expected_accepted_ = 0;
    draft_on({}, 1.0, decide);
    return law_;
  }
  double expected_accepted() const { return expected_accepted_; }

  std::vector<double> target_law() const {
    std::vector<double> result(power(vocab, num_levels_), 0.0);
    fill_up({}, 1.0, result);
    return result;
  }

 private:
  static path prompt() { return {token_id{0}, token_id{2}, token_id{2}, token_id{1}}; }
  static std::size_t power(std::size_t base, std::size_t exponent) {
    return exponent == 0 ? 1 : base * power(base, exponent - 1);
  }

  path context_of(const token_tree& tree, std::int32_t node) const {
    path context;
    for (const std::int32_t at : tree.path_to(node))
      context.push_back(tree.tokens()[static_cast<std::size_t>(at)]);
    return context;
  }

  /// The distribution from which the next node is drawn, given the nodes before it.
  draft_distribution distribution(const draft& so_far, std::int32_t parent) const {
    const auto earlier = so_far.tree.children(parent);
    const bool several = chosen_.kind == siblings::of_several_drafters;
    std::vector<float> row = drafter_.logits(context_of(so_far.tree, parent),
                                             several ? static_cast<std::uint32_t>(earlier.size()) : 0);
    if (chosen_.kind == siblings::distinct)
      for (const std::int32_t node : earlier)
        row[static_cast<std::size_t>(so_far.tree.tokens()[static_cast<std::size_t>(node)].value)] =
            -std::numeric_limits<float>::infinity();
    const float best = *std::max_element(row.begin(), row.end());
    if (!(best > -std::numeric_limits<float>::infinity())) return {};
    for (float& logit : row) logit -= best;
    return truncated_distribution(row);
  }

  void draft_on(const draft& so_far, double probability, const rule& decide) {
    const std::size_t node = so_far.tree.size();
    if (node == chosen_.parents.size()) return play(so_far, probability, decide);
    const std::int32_t parent = chosen_.parents[node];
    if (chosen_.kind == siblings::certain) { // any fixed choice; this one allows a duplicate
      draft next = so_far;
      next.tree.add(token_id{static_cast<std::int32_t>((node * 5 + 1) % vocab)}, parent);
      return draft_on(next, probability, decide);
    }
    const draft_distribution from = distribution(so_far, parent);
    if (from.tokens.empty()) return play(so_far, probability, decide); // no further sibling: the tree ends
    for (const token_id token : from.tokens) {
      draft next = so_far;
      next.tree.add(token, parent);
      next.probs.push_back(from);
      draft_on(next, probability * draft_side(next, static_cast<std::int32_t>(node)).prob_of_drawn(), decide);
    }
  }
  void play(const draft& proposal, double probability, const rule& decide) {
    test::enumerated_dice dice;
    do {
      std::vector<std::vector<float>> rows;
      rows.reserve(proposal.tree.size() + 1);
      std::int32_t last_row = -2;
      const target_row target = [&](std::int32_t node) {
        last_row = node;
        rows.push_back(target_.logits(context_of(proposal.tree, node)));
        return std::span<float>(rows.back());
      };
      const verdict result = decide(proposal,
                                    {.sampling = &pipeline_,
                                     .counts = &counts_,
                                     .next_position = token_position{4},
                                     .constraint = chosen_.constrained ? &constraint_ : nullptr},
                                    target, dice);
      const std::int32_t end = result.accepted_path.empty() ? token_tree::root : result.accepted_path.back();
      EXPECT_EQ(proposal.tree.path_to(end), result.accepted_path);
      EXPECT_EQ(result.bonus, dice.recovered().empty());
      if (result.bonus) {
        EXPECT_EQ(last_row, end) << "the bonus token belongs below the last accepted one";
        EXPECT_TRUE(proposal.tree.is_leaf(end));
      }
      std::set<std::pair<std::uint32_t, std::uint32_t>> numbers;
      for (const auto& one : dice.decisions()) {
        EXPECT_TRUE(numbers.emplace(one.position.value, one.place).second) << "one number for two decisions";
        EXPECT_EQ(one.position.value, 4 + (one.place >> 8)) << "position and depth of one draft token";
      }
      if (!result.bonus) {
        EXPECT_EQ(dice.recovered_at().value, 4 + result.accepted_path.size());
      }
      const double weight = probability * dice.probability();
      expected_accepted_ += weight * static_cast<double>(result.accepted_path.size());
      path committed = context_of(proposal.tree, end);
      if (result.bonus) {
        fill_up(committed, weight, law_);
        continue;
      }
      committed.emplace_back();
      for (std::size_t token = 0; token < vocab; ++token) {
        committed.back() = token_id{static_cast<std::int32_t>(token)};
        fill_up(committed, weight * dice.recovered()[token], law_);
      }
    } while (dice.next());
  }

  void fill_up(const path& committed, double weight, std::vector<double>& law) const {
    if (weight == 0) return;
    if (committed.size() == num_levels_) {
      std::size_t cell = 0;
      for (std::size_t i = committed.size(); i-- > 0;)
        cell = cell * vocab + static_cast<std::size_t>(committed[i].value);
      law[cell] += weight;
      return;
    }
    const auto probs = target_probs(committed);
    path next = committed;
    next.emplace_back();
    for (std::size_t token = 0; token < vocab; ++token) {
      next.back() = token_id{static_cast<std::int32_t>(token)};
      fill_up(next, weight * probs[token], law);
    }
  }

  setting chosen_;
  random_model target_;
  random_model drafter_;
  sampling::pipeline pipeline_;
  sampling::token_counts counts_;
  one_forbidden constraint_;
  token_tree shape_;
  std::size_t num_levels_ = 0;
  std::vector<double> law_;
  double expected_accepted_ = 0;
};

inline verdict by_rejection(const draft& proposal, const verification_context& context,
                            const target_row& rows, dice& dice) {
  return verify_rejection(proposal, context, rows, dice);
}

inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

inline const std::vector<std::int32_t> chain_of_3{-1, 0, 1};
inline const std::vector<std::int32_t> two_then_two{-1, -1, 0, 0, 1};
inline const std::vector<std::int32_t> four_proposals{-1, -1, -1, -1};
inline const std::vector<std::int32_t> late_sibling{-1, 0, 0, -1, 3};

inline sampling_params penalised() {
  sampling_params params;
  params.temperature = 0.8F;
  params.repetition_penalty = 1.3F;
  params.presence_penalty = 0.4F;
  params.frequency_penalty = 0.7F;
  return params;
}

} // namespace paceline::speculation::test_support
