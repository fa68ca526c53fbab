// Short replies in virtual time: several in-line candidates whose calls take time, against every fixed
// setting.
#include "runtime/speculation/control/draft_controller.hpp"

#include "tests/runtime/speculation/control/cost_curves.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

namespace paceline::speculation::draft_controller_short_test {
namespace {

constexpr std::uint32_t num_tokens = 48; ///< of a reply
constexpr std::uint32_t most_levels = 16;
constexpr std::uint32_t fixed_lengths[] = {2, 5, 8};
constexpr double pass_ns = 5e6; ///< over one row

using curve = std::function<double(std::uint32_t rows)>;

/// A drafter as `auto` sees it: how often it proposes something, how good that is by its signal, and the time
/// of a call.
struct candidate {
  double says_something = 1;
  std::vector<double> acceptance; ///< by signal
  double cost = 0;                ///< of a call, in passes
};

double shifted(double probability, double log_odds) {
  const double p = std::clamp(probability, 1e-4, 1 - 1e-4);
  return 1 / (1 + (1 - p) / p * std::exp(-log_odds));
}

/// What each candidate would draft at every place of one reply, and how much of that would be right.
struct reply {
  struct place {
    bool says = false;
    std::uint8_t signal = 0;
    std::uint32_t num_right = 0;
  };
  std::vector<token_id> tokens;
  std::vector<std::vector<place>> places; ///< [candidate][position]

  draft propose(std::size_t which, std::size_t position) const {
    draft made{.base_length = static_cast<std::uint32_t>(position)};
    const place& here = places[which][position];
    std::int32_t node = token_tree::root;
    for (std::uint32_t i = 0; here.says && i < most_levels && position + i < tokens.size(); ++i) {
      const token_id right = tokens[position + i];
      node = made.tree.add(i < here.num_right ? right : token_id{right.value + 1}, node);
      made.signals.push_back(here.signal);
    }
    return made;
  }
};

/// Requests differ: the odds of one request's drafts are a factor better than those of another's.
reply write(std::uint64_t seed, std::span<const candidate> candidates) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  const double quality = std::normal_distribution<double>(0, 0.9)(random);
  reply made;
  for (std::uint32_t i = 0; i < num_tokens; ++i)
    made.tokens.push_back(token_id{static_cast<std::int32_t>(2 * (random() % 1000))});
  for (const auto& c : candidates) {
    auto& all = made.places.emplace_back();
    for (std::uint32_t i = 0; i < num_tokens; ++i) {
      reply::place here{uniform(random) < c.says_something,
                        static_cast<std::uint8_t>(random() % c.acceptance.size()), 0};
      const double right = shifted(c.acceptance[here.signal], quality);
      while (here.num_right < most_levels && uniform(random) < right) ++here.num_right;
      all.push_back(here);
    }
  }
  return made;
}

double replay_fixed(const reply& r, std::span<const candidate> candidates, std::size_t which,
                    std::uint32_t length, const curve& cost) {
  double time = 0;
  for (std::size_t at = 0; at < r.tokens.size();) {
    const auto most = std::min<std::size_t>(length, r.tokens.size() - at - 1);
    const auto drafted = std::min<std::uint32_t>(static_cast<std::uint32_t>(most),
                                                 length > 0 ? r.propose(which, at).tree.size() : 0);
    time += cost(1 + drafted) + (length > 0 ? candidates[which].cost : 0);
    at += 1 + (drafted > 0 ? std::min(drafted, r.places[which][at].num_right) : 0);
  }
  return time;
}

double replay_auto(draft_controller& controller, const reply& r, std::span<const candidate> candidates,
                   const curve& cost, std::mt19937_64& noise) {
  double time = 0;
  draft_history history;
  std::lognormal_distribution<double> scatter(0.0, 0.05);
  for (std::size_t at = 0; at < r.tokens.size();) {
    controller.learn(history, std::span(r.tokens).first(at));
    std::vector<draft_controller::request_choice> one(1);
    one[0].history = &history;
    one[0].proposals.resize(candidates.size());
    for (std::uint32_t c = 0; c < candidates.size(); ++c) {
      if (!controller.begin_call(history, c, 1)) continue;
      one[0].proposals[c] = r.propose(c, at);
      time += candidates[c].cost;
      controller.observe_proposing(c, 1, candidates[c].cost * pass_ns);
    }
    controller.choose(one, {});
    const auto drafted = std::min<std::uint32_t>(one[0].chosen.tree.size(),
                                                 static_cast<std::uint32_t>(r.tokens.size() - at - 1));
    time += cost(1 + drafted);
    controller.observe(1 + drafted, cost(1 + drafted) * pass_ns * scatter(noise));
    at += 1 + (drafted > 0 ? std::min(drafted, r.places[one[0].candidate][at].num_right) : 0);
  }
  return time;
}

struct scenario {
  const char* name;
  std::vector<candidate> candidates;
};

/// Scenarios like n-grams and suffixes over code that is copied, over prose, and over text that never
/// repeats.
std::vector<scenario> scenarios() {
  const candidate hopeless{1.0, {0.02}, 0.004};
  return {
      {"copies", {{0.9, {0.75, 0.9, 0.97, 0.98}, 0.0005}, {1.0, {0.3, 0.7, 0.95, 0.98}, 0.003}, hopeless}},
      {"prose", {{0.4, {0.3, 0.4, 0.55, 0.7}, 0.0005}, {0.7, {0.05, 0.15, 0.3, 0.6}, 0.003}, hopeless}},
      {"nothing repeats", {{0.2, {0.02, 0.1}, 0.0005}, {0.6, {0.02, 0.05, 0.1}, 0.003}, hopeless}},
      {"nothing is told", {{1.0, {0.5}, 0.001}, {1.0, {0.35}, 0.002}, hopeless}},
      {"four", {{0.4, {0.3, 0.6}, 0.001}, {0.4, {0.3, 0.6}, 0.001}, {0.8, {0.5}, 0.002}, hopeless}}};
}

class short_replies : public ::testing::TestWithParam<std::pair<const char*, curve>> {};

/// Every request's history is new, and an engine serves 24 of them. The best fixed setting is the best one
/// over all engines.
TEST_P(short_replies, are_as_fast_as_with_the_best_fixed_setting) {
  constexpr std::uint64_t num_engines = 40, num_requests = 24;
  const curve& cost = GetParam().second;
  for (const auto& s : scenarios()) {
    const std::size_t num_fixed = 1 + s.candidates.size() * std::size(fixed_lengths);
    std::vector<std::vector<double>> fixed(num_fixed, std::vector<double>(num_engines));
    std::vector<double> automatic(num_engines);
    for (std::uint64_t engine = 0; engine < num_engines; ++engine) {
      std::mt19937_64 noise(engine);
      draft_controller controller(static_cast<std::uint32_t>(s.candidates.size()));
      controller.calibrate(timed_at_load(cost, pass_ns, noise));
      for (std::uint64_t request = 0; request < num_requests; ++request) {
        const reply r = write(1 + engine * num_requests + request, s.candidates);
        std::size_t setting = 0;
        fixed[setting++][engine] += replay_fixed(r, s.candidates, 0, 0, cost);
        for (std::size_t c = 0; c < s.candidates.size(); ++c)
          for (const auto length : fixed_lengths)
            fixed[setting++][engine] += replay_fixed(r, s.candidates, c, length, cost);
        automatic[engine] += replay_auto(controller, r, s.candidates, cost, noise);
      }
    }
    const auto sum = [](const std::vector<double>& all) {
      return std::accumulate(all.begin(), all.end(), 0.0);
    };
    const auto best = std::ranges::min_element(fixed, {}, sum);
    std::vector<double> to_best, to_plain;
    for (std::uint64_t engine = 0; engine < num_engines; ++engine) {
      to_best.push_back((*best)[engine] / automatic[engine]);
      to_plain.push_back(fixed[0][engine] / automatic[engine]);
    }
    std::ranges::sort(to_best);
    std::ranges::sort(to_plain);
    std::printf(
        "%s, %s: best is setting %td; auto / best median %.3f, tenth %.3f; auto / plain median %.3f, tenth %.3f\n",
        GetParam().first, s.name, best - fixed.begin(), to_best[num_engines / 2], to_best[num_engines / 10],
        to_plain[num_engines / 2], to_plain[num_engines / 10]);
    EXPECT_GE(to_best[num_engines / 2], 0.99) << s.name;
    EXPECT_GE(to_best[num_engines / 10], 0.98) << s.name;
    EXPECT_GE(to_plain[num_engines / 10], 0.98) << s.name;
  }
}

double large_model(std::uint32_t rows) {
  return rows <= 8 ? 1 + 0.065 * (rows - 1) : 1.75 + 0.13 * (rows - 9);
}
double small_model(std::uint32_t rows) {
  return rows <= 8 ? 1 + 0.085 * (rows - 1) : 1.8 + 0.17 * (rows - 9);
}
double slow_products(std::uint32_t rows) { return 1 + 0.43 * (rows - 1); }

INSTANTIATE_TEST_SUITE_P(curves, short_replies,
                         ::testing::Values(std::pair<const char*, curve>{"large_model", large_model},
                                           std::pair<const char*, curve>{"small_model", small_model},
                                           std::pair<const char*, curve>{"slow_products", slow_products}),
                         [](const auto& tested) { return std::string(tested.param.first); });

} // namespace
} // namespace paceline::speculation::draft_controller_short_test
