// Which actors are restarted, which are not, and who is notified, without actors.
#include "actors/supervisor_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

namespace paceline::actors {
namespace {

using namespace std::chrono_literals;
using plan = std::vector<supervision_step>;

constexpr model_number first{0}, second{1};
constexpr drafter_index drafter{2};
constexpr part worker = worker_of(first, drafter);
constexpr time_point start_time{};

/// Two models; drafter 2 of the first one has a worker.
supervisor_state two_models(std::uint32_t max_restarts) { return {{{drafter}, {}}, max_restarts, 10s}; }

supervisor_state started(std::uint32_t max_restarts) {
  auto state = two_models(max_restarts);
  state.start_everything();
  return state;
}

template <class Step>
std::vector<Step> of_kind(const plan& steps) {
  std::vector<Step> out;
  for (const auto& step : steps)
    if (const auto* it = std::get_if<Step>(&step)) out.push_back(*it);
  return out;
}

/// Position of a step in a plan; its end if it is not in it.
template <class Step>
std::ptrdiff_t place_of(const plan& steps, const Step& step) {
  return std::ranges::find(steps, supervision_step(step)) - steps.begin();
}

TEST(part, has_the_name_that_logs_and_metrics_show) {
  EXPECT_EQ(to_string(the_kv_pool), "kv_pool");
  EXPECT_EQ(to_string(the_fan_out), "fan_out");
  EXPECT_EQ(to_string(scheduler_of(second)), "scheduler/1");
  EXPECT_EQ(to_string(verifier_of(first)), "target_verifier/0");
  EXPECT_EQ(to_string(worker), "draft_worker/0/2");
  EXPECT_EQ(to_string(drafter_of(first, drafter)), "drafter/0/2");
}

TEST(supervisor_state, starts_every_part_after_those_it_is_born_with) {
  auto state = two_models(0);
  const auto steps = state.start_everything();
  EXPECT_EQ(of_kind<steps::start>(steps).size(), 7U);
  for (const auto& [which, again] : of_kind<steps::start>(steps)) {
    EXPECT_FALSE(again);
    EXPECT_LT(place_of(steps, steps::start{which}), place_of(steps, steps::list{which})) << to_string(which);
  }
  for (const auto& peer : {the_fan_out, worker, scheduler_of(first)})
    EXPECT_LT(place_of(steps, steps::start{peer}), place_of(steps, steps::start{verifier_of(first)}));
  for (const auto& peer : {the_fan_out, the_kv_pool})
    EXPECT_LT(place_of(steps, steps::link{scheduler_of(second), peer}),
              place_of(steps, steps::list{scheduler_of(second)}))
        << "whoever finds a scheduler finds one that knows its peers";
  EXPECT_TRUE(of_kind<steps::tell_sessions>(steps).empty());
}

TEST(supervisor_state, a_new_scheduler_is_known_to_its_verifier_before_sessions_submit_again) {
  auto state = started(1);
  const auto steps = state.on_death(scheduler_of(first), start_time);
  const auto which = scheduler_of(first);
  const std::vector order{place_of(steps, steps::start{which, true}), place_of(steps, steps::list{which}),
                          place_of(steps, steps::link{verifier_of(first), which}),
                          place_of(steps, steps::tell_sessions{steps::news::resubmit, first})};
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(order.back() + 1, std::ssize(steps));
}

TEST(supervisor_state, a_new_fan_out_is_known_to_all_before_sessions_hear_of_lost_events) {
  auto state = started(1);
  const auto steps = state.on_death(the_fan_out, start_time);
  const auto last = place_of(steps, steps::tell_sessions{steps::news::events_lost});
  EXPECT_EQ(last + 1, std::ssize(steps));
  for (const auto model : {first, second}) {
    EXPECT_LT(place_of(steps, steps::link{scheduler_of(model), the_fan_out}), last);
    EXPECT_LT(place_of(steps, steps::link{verifier_of(model), the_fan_out}), last);
  }
}

TEST(supervisor_state, others_are_told_of_a_new_pool_verifier_and_worker) {
  auto state = started(1);
  EXPECT_EQ(
      state.on_death(the_kv_pool, start_time),
      (plan{steps::start{the_kv_pool, true}, steps::list{the_kv_pool},
            steps::link{scheduler_of(first), the_kv_pool}, steps::link{scheduler_of(second), the_kv_pool}}));
  EXPECT_EQ(state.on_death(verifier_of(second), start_time),
            (plan{steps::start{verifier_of(second), true}, steps::list{verifier_of(second)}}));
  EXPECT_EQ(state.on_death(worker, start_time),
            (plan{steps::start{worker, true}, steps::list{worker}, steps::link{verifier_of(first), worker}}));
}

TEST(supervisor_state, a_budget_is_a_parts_own_and_comes_back) {
  auto state = started(1);
  EXPECT_FALSE(of_kind<steps::start>(state.on_death(worker, start_time)).empty());
  EXPECT_FALSE(of_kind<steps::start>(state.on_death(scheduler_of(second), start_time + 1s)).empty());
  EXPECT_FALSE(of_kind<steps::start>(state.on_death(worker, start_time + 11s)).empty());
  EXPECT_FALSE(state.is_lost(worker));
  state.on_death(worker, start_time + 12s);
  EXPECT_TRUE(state.is_lost(worker));
}

class lost_for_good : public ::testing::TestWithParam<part> {};

TEST_P(lost_for_good, withdraws_its_models_first_and_names_itself) {
  auto state = started(0);
  const auto which = GetParam();
  const auto steps = state.on_death(which, start_time);
  ASSERT_EQ(of_kind<steps::record_loss>(steps).size(), 1U);
  EXPECT_EQ(of_kind<steps::record_loss>(steps)[0].which, which);
  EXPECT_TRUE(of_kind<steps::start>(steps).empty());
  for (const auto model : {first, second}) {
    const bool concerned = !which.serves_one_model() || model == which.model;
    ASSERT_EQ(state.out_of_service(model) != nullptr, concerned);
    const auto told = place_of(steps, steps::tell_sessions{steps::news::out_of_service, model});
    EXPECT_EQ(told < std::ssize(steps), concerned);
    if (!concerned) continue;
    const auto& why = *state.out_of_service(model);
    EXPECT_NE(why.message().find(to_string(which)), std::string::npos) << why.message();
    EXPECT_LT(place_of(steps, steps::withdraw{model, why}), told);
    EXPECT_LT(place_of(steps, steps::tell_out_of_service{scheduler_of(model)}), told);
  }
}

INSTANTIATE_TEST_SUITE_P(parts, lost_for_good,
                         ::testing::Values(the_kv_pool, the_fan_out, scheduler_of(first),
                                           verifier_of(second)),
                         [](const auto& tested) {
                           auto name = to_string(tested.param);
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

TEST(supervisor_state, the_first_reason_stays) {
  auto state = started(0);
  state.on_death(verifier_of(first), start_time);
  const auto why = *state.out_of_service(first);
  const auto steps = state.on_death(the_kv_pool, start_time);
  EXPECT_EQ(*state.out_of_service(first), why);
  ASSERT_EQ(of_kind<steps::withdraw>(steps).size(), 1U) << "of the other model";
  EXPECT_EQ(of_kind<steps::withdraw>(steps)[0].model, second);
}

TEST(supervisor_state, a_new_pool_is_told_to_take_back_what_a_dead_model_has) {
  supervisor_state state({{}, {}}, 1, std::chrono::seconds(10));
  state.start_everything();
  for (int deaths = 0; deaths < 2; ++deaths) state.on_death(verifier_of(first), start_time);
  ASSERT_NE(state.out_of_service(first), nullptr);
  const auto told = of_kind<steps::give_back_memory>(state.on_death(the_kv_pool, start_time));
  EXPECT_EQ(told, std::vector{steps::give_back_memory{first}});
}

TEST(supervisor_state, a_lost_worker_leaves_its_model_in_service) {
  auto state = started(0);
  const auto steps = state.on_death(worker, start_time);
  EXPECT_EQ(state.out_of_service(first), nullptr);
  const auto ended = place_of(steps, steps::end_programs{worker});
  EXPECT_LT(ended, place_of(steps, steps::tell_worker_lost{scheduler_of(first), worker}));
  EXPECT_LT(ended, place_of(steps, steps::tell_worker_lost{verifier_of(first), worker}));
  EXPECT_TRUE(of_kind<steps::tell_sessions>(steps).empty());
}

TEST(supervisor_state, whoever_is_started_later_hears_what_was_lost_before) {
  supervisor_state state({{drafter_index{1}, drafter}}, 1, 10s);
  state.start_everything();
  for (int i = 0; i < 2; ++i) state.on_death(worker, start_time);
  ASSERT_TRUE(state.is_lost(worker));
  for (const auto& which : {scheduler_of(first), verifier_of(first)}) {
    const auto steps = state.on_death(which, start_time);
    EXPECT_EQ(of_kind<steps::tell_worker_lost>(steps), (std::vector{steps::tell_worker_lost{which, worker}}));
  }
  state.on_death(verifier_of(first), start_time);
  supervisor_state other({{}}, 1, 10s);
  other.start_everything();
  for (int i = 0; i < 2; ++i) other.on_death(verifier_of(first), start_time);
  const auto steps = other.on_death(scheduler_of(first), start_time);
  EXPECT_LT(place_of(steps, steps::tell_out_of_service{scheduler_of(first)}),
            place_of(steps, steps::list{scheduler_of(first)}));
}

TEST(supervisor_state, a_death_that_is_told_twice_counts_once) {
  auto state = started(0);
  EXPECT_FALSE(state.on_death(worker, start_time).empty());
  EXPECT_TRUE(state.on_death(worker, start_time).empty());
  EXPECT_TRUE(state.on_death(worker_of(second, drafter), start_time).empty()) << "it has never been started";
}

TEST(supervisor_state, once_the_end_has_begun_nobody_is_started_or_told) {
  auto state = started(5);
  auto alive = state.begin_end();
  EXPECT_EQ(alive.size(), 7U);
  EXPECT_EQ(state.begin_end(), alive) << "told twice";
  for (const auto& which : alive) {
    EXPECT_FALSE(state.is_over());
    EXPECT_TRUE(state.on_death(which, start_time).empty());
  }
  EXPECT_TRUE(state.is_over());
}

/// With any order of deaths: every part is restarted as often as allowed, and the final state is complete.
TEST(supervisor_state, random_deaths_keep_the_books) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto max_restarts = random() % 4;
    auto state = two_models(max_restarts);
    std::set<part> alive;
    std::map<part, std::uint32_t> num_started;
    const auto carry_out = [&](const plan& steps) {
      for (const auto& [which, again] : of_kind<steps::start>(steps)) {
        EXPECT_TRUE(alive.insert(which).second) << to_string(which);
        EXPECT_EQ(again, num_started[which]++ > 0);
      }
      for (const auto& [which, why] : of_kind<steps::record_loss>(steps)) EXPECT_FALSE(alive.contains(which));
    };
    carry_out(state.start_everything());
    const std::vector<part> all(alive.begin(), alive.end());
    for (auto n = random() % 40; n > 0; --n) {
      const auto& victim = all[random() % all.size()];
      alive.erase(victim);
      carry_out(state.on_death(victim, start_time));
    }
    for (const auto& which : all) {
      EXPECT_EQ(state.is_lost(which), !alive.contains(which));
      EXPECT_LE(num_started[which], 1 + max_restarts);
    }
    for (const auto model : {first, second}) {
      const bool broken = state.is_lost(the_kv_pool) || state.is_lost(the_fan_out) ||
                          state.is_lost(scheduler_of(model)) || state.is_lost(verifier_of(model));
      EXPECT_EQ(state.out_of_service(model) != nullptr, broken);
    }
    EXPECT_EQ(state.begin_end().size(), alive.size());
  }
}

} // namespace
} // namespace paceline::actors
