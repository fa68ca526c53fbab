// The controller with batches in virtual time, on a machine with other load.
#include "runtime/speculation/control/draft_controller.hpp"

#include "tests/runtime/speculation/control/cost_curves.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <random>

namespace paceline::speculation {
namespace {

constexpr std::uint32_t num_tokens = 48; ///< of a request
constexpr std::uint32_t num_levels = 6;  ///< of a draft

/// Disturbances of the times of passes: scatter, minutes in which other processes take a share of the
/// machine, single interrupted passes.
class neighbours {
 public:
  explicit neighbours(std::uint64_t seed) : random_(seed) {}
  double operator()() {
    if (random_() % 40 == 0) pace_ = std::uniform_real_distribution(0.9, 1.6)(random_);
    const double interrupted = random_() % 30 == 0 ? std::uniform_real_distribution(1.3, 2.2)(random_) : 1.0;
    return pace_ * interrupted * std::lognormal_distribution(0.0, 0.06)(random_);
  }

 private:
  std::mt19937_64 random_;
  double pace_ = 1.0;
};

/// A request whose drafts have correct confidences: nearly always right at times, but mostly rarely.
struct request {
  std::mt19937_64 random;
  std::vector<token_id> tokens = {};
  draft_history history = {};
  std::uint32_t num_right = 0; ///< of the draft of this round

  draft propose() {
    static constexpr double acceptance[] = {0, 0.05, 0.2, 0.35, 0.55, 0.7, 0.9, 0.97};
    static constexpr std::uint8_t signals[] = {1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6};
    draft made{.base_length = static_cast<std::uint32_t>(tokens.size())};
    const std::uint8_t signal = signals[random() % std::size(signals)];
    std::int32_t node = token_tree::root;
    for (std::uint32_t i = 0; i < num_levels; ++i) {
      node = made.tree.add(token_id{static_cast<std::int32_t>(tokens.size() + i)}, node);
      made.signals.push_back(signal);
    }
    num_right = 0;
    while (num_right < num_levels && std::uniform_real_distribution()(random) < acceptance[signal])
      ++num_right;
    return made;
  }

  /// Processes a round in which `num_drafted` tokens were verified: the drafted tokens came for the first
  /// `num_right`.
  void commit(std::uint32_t num_drafted) {
    for (std::uint32_t i = std::min(num_drafted, num_right); i > 0; --i)
      tokens.emplace_back(static_cast<std::int32_t>(tokens.size()));
    const bool next_is_right = num_drafted < num_right;
    tokens.emplace_back(next_is_right ? static_cast<std::int32_t>(tokens.size()) : -1);
  }
};

struct outcome {
  double time = 0; ///< in passes over one row
  double num_tokens = 0;
};

/// Runs `num_requests` requests, `batch` at a time, each replaced when it ends, until there is none to
/// replace it.
template <class Curve>
outcome serve(draft_controller& controller, std::uint32_t num_requests, std::uint32_t batch,
              std::uint64_t seed, neighbours& disturbance, const Curve& curve) {
  std::deque<request> waiting;
  for (std::uint32_t i = 0; i < num_requests; ++i) waiting.push_back({std::mt19937_64(seed * 100 + i)});
  std::vector<std::unique_ptr<request>> running;
  outcome done;
  for (;;) {
    std::erase_if(running, [](const auto& one) { return one->tokens.size() >= num_tokens; });
    while (running.size() < batch && !waiting.empty()) {
      running.push_back(std::make_unique<request>(std::move(waiting.front())));
      waiting.pop_front();
    }
    if (running.size() < batch) return done;
    std::vector<draft_controller::request_choice> lanes(running.size());
    for (std::size_t i = 0; i < running.size(); ++i) {
      controller.learn(running[i]->history, running[i]->tokens);
      lanes[i].history = &running[i]->history;
      lanes[i].proposals.push_back(running[i]->propose());
    }
    auto rows = static_cast<std::uint32_t>(running.size());
    controller.choose(lanes, {rows, rows});
    for (std::size_t i = 0; i < running.size(); ++i) {
      const std::uint32_t drafted = lanes[i].chosen.tree.size();
      const std::size_t before = running[i]->tokens.size();
      running[i]->commit(drafted);
      done.num_tokens += static_cast<double>(running[i]->tokens.size() - before);
      rows += drafted;
    }
    controller.observe(rows, 1e6 * curve(rows) * disturbance());
    done.time += curve(rows);
  }
}

/// One more row costs about as much as its token is worth. There is almost nothing to gain, but much to lose
/// if noise is taken for cheap sizes. One engine of ten may lose more than two percent.
TEST(draft_controller_batch, is_not_slower_than_plain_decoding_where_times_are_noisy) {
  for (const double slope : {0.25, 0.37, 0.6, 1.0}) {
    const auto curve = [&](std::uint32_t rows) { return 1 + slope * (rows - 1); };
    constexpr std::uint32_t num_engines = 100, num_requests = 48, batch = 8;
    std::vector<double> ratios;
    for (std::uint32_t engine = 0; engine < num_engines; ++engine) {
      draft_controller controller(1);
      std::mt19937_64 noise(engine);
      if (engine % 2 == 0) controller.calibrate(timed_at_load(curve, 1e6, noise)); // others learn it
      neighbours disturbance(engine);
      const outcome done = serve(controller, num_requests, batch, engine, disturbance, curve);
      ratios.push_back(done.time / done.num_tokens * batch / curve(batch));
    }
    std::ranges::sort(ratios);
    std::printf("slope %.2f: median %.4f, nine of ten %.4f, worst %.4f\n", slope, ratios[num_engines / 2],
                ratios[num_engines * 9 / 10], ratios.back());
    EXPECT_LE(ratios[num_engines / 2], 1.01) << slope;
    EXPECT_LE(ratios[num_engines * 9 / 10], 1.02) << slope;
  }
}

/// Eight requests in a pass that has eight rows for the price of one, and eight more for 0.3. The drafts of
/// one request alone are not worth that step, whichever drafter they are by. The drafts of all are, by the
/// second.
TEST(draft_controller_batch, chooses_the_drafter_with_which_all_requests_fill_a_step_of_the_cost) {
  constexpr std::uint32_t num_requests = 8;
  draft_controller controller(2);
  std::mt19937_64 random(1);
  const auto steps = [](std::uint32_t rows) { return 1 + 0.3 * ((rows - 1) / 8); };
  controller.calibrate(timed_at_load(steps, 1e6, random));
  std::vector<draft_history> histories(num_requests);
  std::vector<std::vector<token_id>> tokens(num_requests);
  std::uint32_t num_by_second = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<draft_controller::request_choice> all(num_requests);
    std::vector<std::array<std::uint32_t, 2>> right(num_requests);
    for (std::uint32_t r = 0; r < num_requests; ++r) {
      controller.learn(histories[r], tokens[r]);
      all[r].history = &histories[r];
      for (std::uint32_t c = 0; c < 2; ++c) {
        if (!controller.begin_call(histories[r], c, num_requests)) {
          all[r].proposals.emplace_back();
          continue;
        }
        controller.observe_proposing(c, 1, 0.001 * 1e6); // which the drafts of all requests are worth
        std::bernoulli_distribution is_right(c == 0 ? 0.2 : 0.7);
        while (right[r][c] < 5 && is_right(random)) ++right[r][c];
        draft made{.base_length = static_cast<std::uint32_t>(tokens[r].size())};
        std::int32_t node = token_tree::root;
        for (std::uint32_t i = 0; i < 5; ++i) {
          const auto next = i < right[r][c] ? static_cast<std::int32_t>(tokens[r].size() + i) : -1;
          node = made.tree.add(token_id{next}, node);
          made.signals.push_back(0);
        }
        all[r].proposals.push_back(std::move(made));
      }
    }
    controller.choose(all, {num_requests, num_requests});
    std::uint32_t num_rows = num_requests;
    for (std::uint32_t r = 0; r < num_requests; ++r) {
      const auto num_drafted = all[r].chosen.tree.size();
      num_rows += num_drafted;
      num_by_second += round >= 200 && num_drafted > 0 && all[r].candidate == 1 ? 1 : 0;
      for (auto i = std::min(num_drafted, right[r][all[r].candidate]) + 1; i > 0; --i)
        tokens[r].emplace_back(static_cast<std::int32_t>(tokens[r].size()));
    }
    controller.observe(num_rows, 1e6 * steps(num_rows));
  }
  EXPECT_GT(num_by_second, 500U) << "of 800";
}

} // namespace
} // namespace paceline::speculation
