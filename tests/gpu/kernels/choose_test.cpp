// Tokens that a GPU chooses are those of the host, bit for bit: the pipeline's choices, and the verdicts of
// rule `coupled`.
#include "runtime/base/check.hpp"
#include "runtime/device/op_choose.hpp"
#include "runtime/speculation/verification/verification.hpp"
#include "tests/gpu/tested_device.hpp"

#include <cmath>
#include <deque>
#include <limits>
#include <optional>

namespace paceline::gpu {
namespace {

using sampling::pipeline;
using speculation::token_tree;

constexpr float infinity = std::numeric_limits<float>::infinity();

/// A request with a draft, the text before it, and the logits of its rows.
struct choosing_case {
  sampling_params params;
  stop_params stop;
  sampling::token_counts counts;
  std::uint32_t output_length = 0;
  token_position position;
  speculation::draft proposal;
  std::vector<std::vector<float>> rows; ///< the root's row, then those of the nodes
};

class gpu_choose : public gpu_test {
 protected:
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  token_id any_token(std::uint32_t vocab_size) {
    return token_id{static_cast<std::int32_t>(random_() % vocab_size)};
  }

  std::vector<float> row_of_logits(std::uint32_t vocab_size) {
    std::normal_distribution<float> normal(0, pick({0.5F, 2.0F, 6.0F}));
    std::vector<float> row(vocab_size);
    const bool coarse = random_() % 3 == 0; // ties
    for (float& x : row) x = coarse ? std::round(normal(random_)) : normal(random_);
    for (const float odd : {-infinity, infinity, std::numeric_limits<float>::quiet_NaN()})
      if (random_() % 4 == 0)
        for (std::uint32_t i = 0; i <= random_() % 3; ++i) row[random_() % vocab_size] = odd;
    if (random_() % 12 == 0) std::fill(row.begin(), row.end(), -infinity);
    if (random_() % 24 == 0) std::fill(row.begin(), row.end(), std::numeric_limits<float>::quiet_NaN());
    return row;
  }

  choosing_case any_case(std::uint32_t vocab_size) {
    choosing_case c;
    c.params.temperature = pick({0.0F, 0.3F, 0.7F, 1.0F, 1.0F, 2.0F});
    c.params.min_p = pick({0.0F, 0.0F, 0.05F, 0.5F, 1.0F});
    c.params.top_k = pick({0, -1, 1, 2, 5, 40, 64, 128});
    if (c.params.top_k > 0) c.params.top_p = pick({1.0F, 0.95F, 0.5F, 1e-30F});
    c.params.seed = random_() | std::uint64_t{random_()} << 32;
    c.params.choice_index = static_cast<std::uint32_t>(random_() % 3);
    if (random_() % 3 == 0) {
      c.params.repetition_penalty = pick({1.0F, 1.3F, 0.8F});
      c.params.presence_penalty = pick({0.0F, 0.5F, -1.5F});
      c.params.frequency_penalty = pick({0.0F, 0.25F, -0.3F});
    }
    if (random_() % 3 == 0)
      for (std::uint32_t t = static_cast<std::uint32_t>(random_() % 5); t < vocab_size;
           t += 1 + random_() % 40)
        c.params.logit_bias.emplace_back(static_cast<std::int32_t>(t), pick({-100.0F, 3.0F, 0.1F, -2.0F}));
    c.stop.min_tokens = pick({0U, 0U, 3U, 1000U});
    for (std::uint32_t i = 0; i < 5; ++i) c.stop.eos_ids.push_back(any_token(vocab_size));
    const std::vector<token_id> prompt{any_token(vocab_size), any_token(vocab_size), any_token(vocab_size)};
    c.counts.add_prompt(prompt);
    c.output_length = static_cast<std::uint32_t>(random_() % 6);
    for (std::uint32_t i = 0; i < c.output_length; ++i) c.counts.add_output(any_token(vocab_size));
    c.position = token_position{static_cast<std::uint32_t>(prompt.size()) + c.output_length};
    c.rows.push_back(row_of_logits(vocab_size));
    return c;
  }

  speculation::verdict expected(const choosing_case& c) const {
    const pipeline with(c.params, c.stop);
    auto rows = c.rows;
    return speculation::verify_coupled(
        c.proposal, {&with, &c.counts, c.position, c.output_length},
        [&](std::int32_t node) { return std::span(rows[static_cast<std::size_t>(node + 1)]); });
  }

  /// Adds nodes so that most are accepted: tokens that would be chosen, others beside them, and some
  /// duplicates.
  void grow_draft(choosing_case& c, std::uint32_t vocab_size, std::uint32_t num_levels) {
    const auto add = [&](token_id token, std::int32_t parent) {
      if (c.proposal.tree.size() >= 40) return;
      c.proposal.tree.add(token, parent);
      c.rows.push_back(row_of_logits(vocab_size));
    };
    for (std::uint32_t level = 0; level < num_levels; ++level) {
      const auto verdict = expected(c);
      const std::int32_t at = verdict.accepted_path.empty() ? token_tree::root : verdict.accepted_path.back();
      if (random_() % 2 == 0) add(any_token(vocab_size), at);
      if (random_() % 8 != 0) add(verdict.next, at);
      if (random_() % 3 == 0) add(verdict.next, at);
      if (random_() % 2 == 0)
        add(any_token(vocab_size), static_cast<std::int32_t>(random_() % (c.proposal.tree.size() + 1)) - 1);
    }
  }

  /// The GPU's choices for all cases at once.
  std::vector<device::chosen_run> chosen_on_gpu(std::span<const choosing_case> cases,
                                                std::uint32_t vocab_size) {
    std::vector<float> logits;
    std::deque<pipeline> pipelines;
    std::deque<std::vector<device::penalised_token>> counts;
    std::vector<device::token_choice> requests;
    std::uint32_t num_rows = 0;
    for (const choosing_case& c : cases) {
      const auto& with = pipelines.emplace_back(c.params, c.stop);
      auto settings = with.settings_for_device(
          {.committed = &c.counts, .position = c.position, .output_index = c.output_length}, vocab_size,
          counts.emplace_back());
      PACELINE_CHECK(settings.has_value(), "settings that a device does not know");
      settings->first_row = num_rows;
      settings->draft_tokens = c.proposal.tree.tokens();
      settings->parents = c.proposal.tree.parents();
      requests.push_back(*settings);
      for (const auto& row : c.rows) logits.insert(logits.end(), row.begin(), row.end());
      num_rows += static_cast<std::uint32_t>(c.rows.size());
    }
    std::vector<device::chosen_run> out(cases.size());
    float* const there = upload(logits);
    run([&](device::ops& ops) {
      ops.choose({there, num_rows, vocab_size, requests, out});
      ops.deliver();
    });
    return out;
  }
};

TEST_F(gpu_choose, the_tokens_and_verdicts_are_those_of_the_host) {
  std::size_t num_accepted = 0, num_hopeless = 0, num_bonus = 0;
  for (const std::uint32_t vocab_size : {1U, 3U, 64U, 65U, 272U, 700U, 9000U}) {
    for (std::uint32_t repeat = 0; repeat < (vocab_size > 1000 ? 2U : 10U); ++repeat) {
      std::vector<choosing_case> cases;
      for (std::uint32_t i = 0; i < 4; ++i) {
        cases.push_back(any_case(vocab_size));
        grow_draft(cases.back(), vocab_size, static_cast<std::uint32_t>(random_() % 5));
      }
      const auto chosen = chosen_on_gpu(cases, vocab_size);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto wanted = expected(cases[i]);
        const auto got = speculation::verdict_of(chosen[i], cases[i].proposal.tree);
        ASSERT_EQ(got.next, wanted.next) << "vocabulary " << vocab_size << " case " << i;
        ASSERT_EQ(got.accepted_path, wanted.accepted_path);
        ASSERT_EQ(got.bonus, wanted.bonus);
        ASSERT_EQ(got.hopeless, wanted.hopeless);
        num_accepted += got.accepted_path.size();
        num_hopeless += got.hopeless ? 1 : 0;
        num_bonus += got.bonus ? 1 : 0;
      }
    }
  }
  EXPECT_GT(num_accepted, 100U);
  EXPECT_GT(num_hopeless, 0U);
  EXPECT_GT(num_bonus, 20U);
}

TEST_F(gpu_choose, penalties_grow_along_a_draft) {
  // The same token is best everywhere, until its penalties exceed its lead.
  choosing_case c;
  c.params.temperature = 0;
  c.params.presence_penalty = 0.5F;
  c.params.frequency_penalty = 1.0F;
  c.rows.assign(6, {0, 0, 3, 1, 0});
  for (std::int32_t n = 0; n < 5; ++n) c.proposal.tree.add(token_id{2}, n - 1);
  const auto chosen = chosen_on_gpu({&c, 1}, 5);
  EXPECT_EQ(chosen[0].place, 1) << "twice it is still best: 3, 1.5, then 0.5";
  EXPECT_EQ(chosen[0].next, token_id{3});
  EXPECT_FALSE(chosen[0].bonus);
}

TEST_F(gpu_choose, minimum_length_is_counted_along_a_draft) {
  choosing_case c;
  c.params.temperature = 0;
  c.stop.eos_ids = {token_id{1}};
  c.stop.min_tokens = 2;
  c.rows.assign(4, {0, 9, 5});
  for (std::int32_t n = 0; n < 3; ++n) c.proposal.tree.add(token_id{2}, n - 1);
  const auto chosen = chosen_on_gpu({&c, 1}, 3);
  EXPECT_EQ(chosen[0].place, 1);
  EXPECT_EQ(chosen[0].next, token_id{1}) << "the third token may be the end";
}

/// Rows that are hard to cut at a rank: ties, random order, few tokens with weight.
enum class cut_row {
  all_equal,
  two_values,
  rising,
  falling,
  few_finite,
  mostly_nan,
  infinities,
  equal_when_scaled,
  far_apart,
  hopeless
};
constexpr auto last_cut_row = cut_row::hopeless;

std::vector<float> make_row(cut_row kind, std::uint32_t vocab_size, std::mt19937& random) {
  std::vector<float> row(vocab_size);
  for (std::uint32_t t = 0; t < vocab_size; ++t) {
    const auto number = static_cast<float>(t), one_of = static_cast<float>(random() % 16);
    const bool is_rare = random() % (vocab_size / 20 + 1) == 0;
    const auto value = [&] {
      switch (kind) {
      case cut_row::all_equal:
        return -2.5F;
      case cut_row::two_values:
        return is_rare ? 1.0F : 0.0F; // more ties at the cut than tokens before it
      case cut_row::rising:
        return 0.001F * number;
      case cut_row::falling:
        return -0.001F * number;
      case cut_row::few_finite:
        return is_rare ? one_of : -infinity;
      case cut_row::mostly_nan:
        return is_rare ? one_of : std::numeric_limits<float>::quiet_NaN();
      case cut_row::infinities:
        return is_rare ? (t % 2 == 0 ? infinity : std::numeric_limits<float>::max()) : one_of;
      case cut_row::equal_when_scaled:
        return t == vocab_size / 2 ? 100.0F : 1e-9F * static_cast<float>(1 + random() % 1000);
      case cut_row::far_apart:
        return is_rare ? one_of : -3e38F * one_of; // scores of -infinity from finite logits
      case cut_row::hopeless:
        return -infinity;
      }
      return 0.0F;
    };
    row[t] = value();
  }
  return row;
}

TEST_F(gpu_choose, rows_that_are_hard_to_cut_are_cut_as_the_host_does) {
  for (const std::uint32_t vocab_size :
       {1U, 64U, 130U, 9001U, 20011U}) // the last two: more chunks than top-k
    for (int kind = 0; kind <= static_cast<int>(last_cut_row); ++kind) {
      std::vector<choosing_case> cases;
      for (const std::int32_t top_k : {1, 2, 5, 40, 64, 127, 128}) {
        auto& c = cases.emplace_back();
        c.params.temperature = pick({0.7F, 1.0F, 3.0F});
        c.params.seed = random_();
        c.params.top_k = top_k;
        c.params.top_p = pick({1.0F, 1.0F, 0.95F, 0.5F});
        c.params.min_p = pick({0.0F, 0.0F, 0.2F});
        c.rows.push_back(make_row(cut_row{kind}, vocab_size, random_));
      }
      const auto chosen = chosen_on_gpu(cases, vocab_size);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto wanted = expected(cases[i]);
        ASSERT_EQ(chosen[i].next, wanted.next)
            << "kind " << kind << ", vocabulary " << vocab_size << ", top-k " << cases[i].params.top_k;
        ASSERT_EQ(chosen[i].hopeless, wanted.hopeless);
      }
    }
}

TEST_F(gpu_choose, of_equal_tokens_those_of_the_lowest_ids_are_kept) {
  std::vector<choosing_case> cases(60);
  for (auto& c : cases) {
    c.params.seed = random_();
    c.params.top_k = 5;
    c.rows.assign(1, std::vector<float>(9000, 1.0F));
    c.rows[0][8000] = 1.5F;
  }
  std::vector<std::uint32_t> counts(9000);
  for (const auto& chosen : chosen_on_gpu(cases, 9000)) ++counts[static_cast<std::size_t>(chosen.next.value)];
  std::uint32_t num_kept = 0;
  for (const std::size_t token : {0U, 1U, 2U, 3U, 8000U}) {
    EXPECT_GT(counts[token], 0U) << token;
    num_kept += counts[token];
  }
  EXPECT_EQ(num_kept, 60U);
}

TEST_F(gpu_choose, weights_are_added_in_double_from_the_likeliest_down) {
  // Two tokens and sixty light ones; half of the total weight is one token, or a little more. Each of the
  // lightest is lost when added to the first two, so all are lost in this order; in single precision the
  // others would be lost, too.
  for (const float light : {-36.7F, -20.0F}) {
    std::vector<choosing_case> cases(20);
    for (auto& c : cases) {
      c.params.seed = random_();
      c.params.top_k = 62;
      c.params.top_p = 0.5F;
      c.rows.assign(1, std::vector<float>(62, light));
      c.rows[0][7] = c.rows[0][30] = 0;
    }
    std::size_t num_second = 0;
    for (const auto& chosen : chosen_on_gpu(cases, 62)) {
      EXPECT_TRUE(chosen.next == token_id{7} || chosen.next == token_id{30});
      num_second += chosen.next == token_id{30} ? 1 : 0;
    }
    EXPECT_EQ(num_second > 0, light > -30);
  }
}

TEST_F(gpu_choose, refuses_arguments_that_do_not_fit) {
  choosing_case c;
  c.rows.assign(2, {1, 2, 3});
  c.proposal.tree.add(token_id{1}, token_tree::root);
  const pipeline with(c.params, c.stop);
  std::vector<device::penalised_token> counts;
  auto settings = *with.settings_for_device({}, 3, counts);
  settings.draft_tokens = c.proposal.tree.tokens();
  settings.parents = c.proposal.tree.parents();
  float* const logits = upload(std::vector<float>(6));
  std::vector<device::chosen_run> out(1);
  const std::int32_t later[] = {0};
  const auto fails = [&](const device::token_choice& request, std::uint32_t num_rows, const char* why) {
    const auto done = stream_->submit("choose", {}, [&](device::ops& ops) {
      ops.choose({logits, num_rows, 3, {&request, 1}, out});
    });
    done.wait();
    ASSERT_TRUE(done.failure()) << why;
    EXPECT_NE(done.failure()->message().find(why), std::string::npos) << done.failure()->message();
  };
  fails(settings, 3, "rows for requests of");
  auto other = settings;
  other.first_row = 1;
  fails(other, 2, "rows that do not follow");
  other = settings;
  other.parents = later;
  fails(other, 2, "before its parent");
  other.parents = {};
  fails(other, 2, "a draft of 1 nodes");
  other = settings;
  other.top_k = device::max_top_k + 1;
  fails(other, 2, "top-k 129");
  other.top_k = 0;
  other.top_p = 0.5F;
  fails(other, 2, "with top-p 0.5");
}

} // namespace
} // namespace paceline::gpu
