// Replays the controller over recorded drafts in virtual time, against every fixed draft length.
#include "runtime/speculation/control/draft_controller.hpp"

#include "tests/runtime/speculation/control/cost_curves.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace paceline::speculation::draft_controller_test {
namespace {

constexpr std::uint32_t most_levels = 16;

/// The draft at every position of one request's output, and whether it is right.
struct recording {
  std::vector<token_id> tokens;
  std::vector<std::uint32_t> num_right; ///< [position]: leading draft tokens that are right
  std::vector<std::uint8_t> signals;    ///< [position]

  draft propose(std::size_t position) const {
    draft made{.base_length = static_cast<std::uint32_t>(position)};
    std::int32_t node = token_tree::root;
    for (std::uint32_t i = 0; i < most_levels && position + i < tokens.size(); ++i) {
      const token_id right = tokens[position + i];
      node = made.tree.add(i < num_right[position] ? right : token_id{right.value + 1}, node);
      made.signals.push_back(signals[position]);
    }
    return made;
  }
};

/// A recording whose drafts' tokens are right with probability `acceptance(position)` each.
recording record(std::uint64_t seed, std::size_t length, const std::function<double(std::size_t)>& acceptance,
                 bool telling_signals = false) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  recording made;
  for (std::size_t i = 0; i < length; ++i) {
    made.tokens.push_back(token_id{static_cast<std::int32_t>(2 * (random() % 1000))});
    const double a = acceptance(i);
    std::uint32_t right = 0;
    while (right < most_levels && uniform(random) < a) ++right;
    made.num_right.push_back(right);
    made.signals.push_back(telling_signals ? static_cast<std::uint8_t>(a * 7.0) : std::uint8_t{0});
  }
  return made;
}

using curve = std::function<double(std::uint32_t rows)>;

struct outcome {
  double time = 0;
  std::size_t num_tokens = 0;
};

outcome replay_fixed(const recording& r, std::uint32_t length, const curve& cost) {
  outcome done;
  for (std::size_t at = 0; at < r.tokens.size();) {
    const auto drafted = static_cast<std::uint32_t>(std::min<std::size_t>(length, r.tokens.size() - at - 1));
    done.time += cost(1 + drafted);
    at += 1 + std::min(drafted, r.num_right[at]);
  }
  done.num_tokens = r.tokens.size();
  return done;
}

outcome replay_auto(draft_controller& controller, const recording& r, const curve& cost,
                    std::mt19937_64& noise) {
  outcome done;
  draft_history history;
  std::lognormal_distribution<double> disturbance(0.0, 0.08);
  for (std::size_t at = 0; at < r.tokens.size();) {
    controller.learn(history, std::span(r.tokens).first(at));
    std::vector<draft_controller::request_choice> lanes(1);
    lanes[0].history = &history;
    lanes[0].proposals.push_back(r.propose(at));
    controller.choose(lanes, {});
    const auto drafted = std::min<std::uint32_t>(lanes[0].chosen.tree.size(),
                                                 static_cast<std::uint32_t>(r.tokens.size() - at - 1));
    const double time = cost(1 + drafted);
    controller.observe(1 + drafted, time * 1e6 * disturbance(noise));
    done.time += time;
    at += 1 + std::min(drafted, r.num_right[at]);
  }
  done.num_tokens = r.tokens.size();
  return done;
}

struct scenario {
  const char* name;
  std::function<double(std::size_t)> acceptance;
  curve cost;
};

double plain_only(std::uint32_t rows) { return rows; }
double slow_products(std::uint32_t rows) { return 1 + 0.43 * (rows - 1); }
double bandwidth_bound(std::uint32_t rows) {
  return rows <= 6 ? 1 + 0.02 * (rows - 1) : 1.1 + 0.17 * (rows - 6);
}
double tiles_of_eight(std::uint32_t rows) { return 1 + 0.9 * ((rows - 1) / 8) + 0.01 * rows; }

std::vector<scenario> scenarios() {
  std::vector<scenario> all;
  for (const auto& [name, cost] : {std::pair<const char*, curve>{"every row costs a pass", plain_only},
                                   {"slow products", slow_products},
                                   {"bandwidth bound", bandwidth_bound},
                                   {"tiles of eight", tiles_of_eight}}) {
    for (const double a : {0.0, 0.1, 0.3, 0.5, 0.7, 0.85, 0.97})
      all.push_back({name, [a](std::size_t) { return a; }, cost});
    all.push_back(
        {name, [](std::size_t i) { return i / 150 % 2 == 0 ? 0.95 : 0.05; }, cost}); // copies, then new text
  }
  return all;
}

std::string describe(const scenario& s) {
  return std::string(s.name) + ", acceptance " + std::to_string(s.acceptance(0));
}

/// Over several engines, because one of them may have bad luck with noise at first.
TEST(draft_controller, stays_within_two_percent_of_the_best_fixed_length) {
  constexpr std::uint64_t num_engines = 4, num_requests = 40;
  for (const auto& s : scenarios()) {
    double fixed[most_levels + 1] = {};
    double automatic = 0;
    for (std::uint64_t engine = 0; engine < num_engines; ++engine) {
      draft_controller controller(1);
      std::mt19937_64 noise(engine);
      controller.calibrate(timed_at_load(s.cost, 1e6, noise));
      for (std::uint64_t request = 0; request < num_requests; ++request) {
        const recording r = record(engine * num_requests + request + 1, 600, s.acceptance);
        for (std::uint32_t k = 0; k <= most_levels; ++k) fixed[k] += replay_fixed(r, k, s.cost).time;
        automatic += replay_auto(controller, r, s.cost, noise).time;
      }
    }
    const double best = *std::min_element(fixed, fixed + most_levels + 1);
    EXPECT_LE(automatic, 1.02 * best) << describe(s) << ": best " << best << ", auto " << automatic;
    EXPECT_LE(automatic, 1.02 * fixed[0]) << describe(s) << ": never slower than plain decoding";
  }
}

/// With an untrained controller, a whole request costs at most two passes more than with the best fixed
/// length.
TEST(draft_controller, starts_up_at_the_price_of_two_target_steps) {
  for (const auto& s : scenarios()) {
    double regret = 0;
    constexpr int num_requests = 60;
    for (std::uint64_t request = 0; request < num_requests; ++request) {
      draft_controller controller(1);
      std::mt19937_64 noise(request);
      controller.calibrate(timed_at_load(s.cost, 1e6, noise));
      const recording r = record(1000 + request, 120, s.acceptance);
      double best = replay_fixed(r, 0, s.cost).time;
      if (s.acceptance(0) > 0.3) continue; // it gains there: see the test above
      regret += replay_auto(controller, r, s.cost, noise).time - best;
    }
    EXPECT_LE(regret / num_requests, 2.0) << describe(s);
  }
}

TEST(draft_controller, uses_signals_that_tell_good_drafts_from_bad_ones) {
  const auto acceptance = [](std::size_t i) { return i % 3 == 0 ? 0.95 : 0.1; };
  double with = 0, without = 0;
  draft_controller told(1), untold(1);
  std::mt19937_64 noise(1);
  for (std::uint64_t request = 0; request < 20; ++request) {
    with += replay_auto(told, record(request, 600, acceptance, true), slow_products, noise).time;
    without += replay_auto(untold, record(request, 600, acceptance, false), slow_products, noise).time;
  }
  EXPECT_LT(with, 0.85 * without);
}

TEST(draft_controller, scores_drafts_that_were_not_verified) {
  draft_controller controller(1);
  std::mt19937_64 noise(1);
  // Drafting cannot pay at first, whatever is accepted; then it suddenly does.
  const recording good = record(5, 400, [](std::size_t) { return 0.9; });
  const auto before = replay_auto(controller, good, plain_only, noise);
  EXPECT_NEAR(before.time, 400, 8);
  draft_history history;
  controller.learn(history, {});
  std::vector<draft_controller::request_choice> lanes(1);
  lanes[0].history = &history;
  lanes[0].proposals.push_back(good.propose(10));
  for (int i = 0; i < 400; ++i)
    for (const std::uint32_t rows : {1U, 5U, 9U, 17U}) controller.observe(rows, 1e6 * bandwidth_bound(rows));
  controller.choose(lanes, {});
  EXPECT_GE(lanes[0].chosen.tree.size(), 5U) << "it had been watching";
}

TEST(draft_controller, chooses_the_drafter_that_is_right_here) {
  draft_controller controller(2);
  const recording bad = record(1, 800, [](std::size_t) { return 0.05; });
  recording good = record(2, 800, [](std::size_t) { return 0.9; });
  good.tokens = bad.tokens; // the same output with better drafts
  draft_history history;
  std::uint32_t num_good = 0, num_rounds = 0;
  for (std::size_t at = 0; at + most_levels < bad.tokens.size();) {
    controller.learn(history, std::span(bad.tokens).first(at));
    std::vector<draft_controller::request_choice> lanes(1);
    lanes[0].history = &history;
    lanes[0].proposals = {bad.propose(at), good.propose(at)};
    controller.choose(lanes, {});
    const auto drafted = lanes[0].chosen.tree.size();
    controller.observe(1 + drafted, 1e6 * slow_products(1 + drafted));
    num_good += drafted > 0 && lanes[0].candidate == 1 ? 1 : 0;
    ++num_rounds;
    at += 1 + (lanes[0].candidate == 1 ? std::min(drafted, good.num_right[at])
                                       : std::min(drafted, bad.num_right[at]));
  }
  EXPECT_GT(num_good, num_rounds * 9 / 10);
}

/// The second of two siblings is right as often as the first, but the first is rarely wrong, so the second is
/// worth little.
TEST(draft_controller, counts_what_earlier_siblings_leave) {
  draft_controller controller(1);
  for (int i = 0; i < 300; ++i)
    for (const std::uint32_t rows : {1U, 2U, 3U}) controller.observe(rows, 1e6 * (1 + 0.3 * (rows - 1)));
  draft pair{.base_length = 0};
  pair.tree.add(token_id{1}, token_tree::root);
  pair.tree.add(token_id{2}, token_tree::root);
  std::uint32_t num_nodes = 0;
  for (int i = 0; i < 1000; ++i) {
    draft_history history;
    controller.learn(history, {});
    std::vector<draft_controller::request_choice> lanes(1);
    lanes[0].history = &history;
    lanes[0].proposals = {pair};
    controller.choose(lanes, {});
    num_nodes = lanes[0].chosen.tree.size();
    controller.observe(1 + num_nodes, 1e6 * (1 + 0.3 * num_nodes));
    // The first is right in 8 of 10 cases, the second in 8 of 10 of the others.
    const std::vector<token_id> came{token_id{i % 10 < 8 ? 1 : i % 50 < 48 ? 2 : 3}};
    controller.learn(history, came);
  }
  std::uint32_t with_second = 0;
  for (int i = 0; i < 100; ++i) {
    draft_history history;
    std::vector<draft_controller::request_choice> lanes(1);
    lanes[0].history = &history;
    lanes[0].proposals = {pair};
    controller.choose(lanes, {});
    with_second += lanes[0].chosen.tree.size() == 2 ? 1 : 0;
    controller.observe(1 + lanes[0].chosen.tree.size(), 1e6 * (1 + 0.3 * lanes[0].chosen.tree.size()));
  }
  EXPECT_LT(with_second, 15U) << "0.16 tokens for 0.3 passes";
}

/// The choice does not depend on drawn tokens: of two drafts with the same plan, the same levels are kept.
TEST(draft_controller, decides_on_the_plan_of_drawn_tokens) {
  const auto drawn = [](std::uint32_t num_levels) {
    draft made{.base_length = 0};
    made.plan = {4, 4};
    std::int32_t node = token_tree::root;
    for (std::uint32_t i = 0; i < num_levels; ++i) {
      node = made.tree.add(token_id{1}, node);
      made.probs.push_back({{token_id{1}}, {1.0F}});
    }
    return made;
  };
  draft_controller controller(2);
  for (int i = 0; i < 300; ++i)
    for (std::uint32_t rows = 1; rows < 6; ++rows) controller.observe(rows, 1e6 * (1 + 0.1 * (rows - 1)));
  std::uint32_t num_levels = 0;
  for (std::uint32_t first = 4; first >= 1; --first) {
    draft_history history;
    std::vector<draft_controller::request_choice> lanes(1);
    lanes[0].history = &history;
    lanes[0].proposals = {drawn(first), drawn(5 - first)};
    draft_controller fresh = controller;
    fresh.choose(lanes, {});
    EXPECT_EQ(lanes[0].candidate, 0U) << "of equal plans the first, whichever is deeper";
    if (first == 4) num_levels = lanes[0].chosen.tree.size();
    EXPECT_GE(num_levels, 1U);
    EXPECT_EQ(lanes[0].chosen.tree.size(), std::min(first, num_levels));
  }
  // Planned levels that were not reached count as wrong.
  for (int i = 0; i < 200; ++i) {
    draft_history history;
    controller.learn(history, {});
    std::vector<draft_controller::request_choice> lanes(1);
    lanes[0].history = &history;
    lanes[0].proposals = {drawn(2), draft{}};
    controller.choose(lanes, {});
    const auto num_nodes = lanes[0].chosen.tree.size();
    controller.observe(1 + num_nodes, 1e6 * (1 + 0.1 * num_nodes));
    controller.learn(history, std::vector(4, token_id{1}));
  }
  draft_history history;
  std::vector<draft_controller::request_choice> lanes(1);
  lanes[0].history = &history;
  lanes[0].proposals = {drawn(4), draft{}};
  controller.choose(lanes, {});
  EXPECT_LE(lanes[0].chosen.tree.size(), 3U) << "two, and now and then one more to see";
}

/// In a pass with a chunk of a prompt, a draft token costs one more row.
TEST(draft_controller, drafts_beside_rows_of_prompts) {
  const auto chosen = [](double slope, double acceptance) {
    draft_controller controller(1);
    std::mt19937_64 noise(1);
    const recording r = record(3, 600, [=](std::size_t) { return acceptance; });
    replay_auto(
        controller, r, [=](std::uint32_t rows) { return 1 + slope * (rows - 1); }, noise);
    std::uint32_t sum = 0;
    for (std::size_t at = 0; at < 100; ++at) {
      draft_history history;
      std::vector<draft_controller::request_choice> lanes(1);
      lanes[0].history = &history;
      lanes[0].proposals.push_back(r.propose(at));
      controller.choose(lanes, {.num_requests = 1, .num_rows = 97});
      sum += lanes[0].chosen.tree.size();
    }
    return sum / 100;
  };
  EXPECT_GE(chosen(0.1, 0.9), 4U);
  EXPECT_EQ(chosen(0.6, 0.1), 0U);
}

TEST(draft_controller, does_not_look_at_signals_of_sampled_tokens) {
  draft sure{.base_length = 0};
  sure.tree.add(token_id{1}, token_tree::root);
  sure.signals = {7};
  draft sampled = sure;
  sampled.probs = {{{token_id{1}}, {1.0F}}};
  sampled.plan = {1, 1};
  draft_controller controller(1);
  for (int i = 0; i < 20; ++i)
    for (const std::uint32_t rows : {1U, 2U}) controller.observe(rows, 1e6 * bandwidth_bound(rows));
  // The tokens with the highest signal have always been wrong. Nothing is known of others.
  for (int i = 0; i < 200; ++i) {
    draft_history history;
    std::vector<draft_controller::request_choice> lanes(1);
    lanes[0].history = &history;
    lanes[0].proposals = {sure};
    controller.choose(lanes, {});
    const std::vector<token_id> came{token_id{2}};
    controller.learn(history, came);
  }
  const auto chosen = [&](const draft& proposal) {
    draft_history history;
    std::vector<draft_controller::request_choice> lanes(1);
    lanes[0].history = &history;
    lanes[0].proposals = {proposal};
    controller.choose(lanes, {});
    return lanes[0].chosen.tree.size();
  };
  EXPECT_EQ(chosen(sure), 0U);
  EXPECT_EQ(chosen(sampled), 1U);
}

} // namespace
} // namespace paceline::speculation::draft_controller_test
