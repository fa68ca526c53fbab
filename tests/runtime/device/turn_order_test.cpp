#include "runtime/device/turn_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace paceline::device {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr tenant_id a{1}, b{2}, c{3};

/// A device in virtual time that follows a turn_order. A program may yield between two of its parallel loops,
/// which are `loop` apart.
class shared_device {
 public:
  struct stream {
    tenant_id tenant;
    stream_priority priority = stream_priority::normal;
    std::deque<std::pair<std::uint64_t, nanoseconds>>
        programs; ///< in the order of submission, and their computing time
    nanoseconds last{};
    std::uint32_t num_run = 0;
    /// Number of times that a younger program of the tenant ran before its first one.
    std::uint32_t num_overtaken = 0;
  };

  explicit shared_device(nanoseconds loop = 100us) : loop_(loop) {}

  /// Streams never end.
  std::size_t add_stream(tenant_id tenant, stream_priority priority = stream_priority::normal) {
    turns_.add_stream(tenant);
    streams_.push_back({tenant, priority, {}, {}, 0, 0});
    return streams_.size() - 1;
  }

  void submit(std::size_t stream, nanoseconds length) {
    auto& s = streams_[stream];
    if (!is_busy(s.tenant)) waits_since_[s.tenant] = time_;
    s.programs.emplace_back(++num_submitted_, length);
    turns_.enter(s.tenant, now());
  }

  /// Returns a client's reaction to the end of a program, which submits more programs.
  std::function<void(std::size_t stream)> on_end = [](std::size_t) {};
  std::function<void()> on_loop = [] {};

  /// Computes until `end`; idle time advances in steps of a loop.
  void run_until(nanoseconds end) {
    while (time_ < end) {
      on_loop();
      if (!run_next()) time_ += loop_;
    }
  }

  nanoseconds computed(tenant_id tenant) const {
    const auto at = computed_.find(tenant);
    return at == computed_.end() ? nanoseconds{} : at->second;
  }
  std::uint32_t num_streams() const { return static_cast<std::uint32_t>(streams_.size()); }
  const stream& at(std::size_t stream) const { return streams_[stream]; }
  /// Longest time during which the tenant had work and did not compute.
  nanoseconds longest_wait(tenant_id tenant) const {
    const auto at = longest_wait_.find(tenant);
    return at == longest_wait_.end() ? nanoseconds{} : at->second;
  }
  nanoseconds time() const { return time_; }
  bool is_busy(tenant_id tenant) const {
    return std::ranges::find(begun_, tenant) != begun_.end() ||
           std::ranges::any_of(streams_,
                               [&](const auto& s) { return s.tenant == tenant && !s.programs.empty(); });
  }
  const turn_order& turns() const { return turns_; }
  nanoseconds spread() const { return spread_; }
  /// Largest number of its own tenant's younger programs that ran before a ready program.
  std::uint32_t most_overtaken() const { return most_overtaken_; }
  const std::vector<tenant_id>& order() const { return order_; }

 private:
  time_point now() const { return time_point(time_); }

  bool run_next() {
    std::vector<waiting_program> waiting;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const auto& s = streams_[i];
      if (s.programs.empty()) continue;
      waiting.push_back({s.tenant, s.priority, s.programs.front().first, s.last, s.num_overtaken > 0});
      which.push_back(i);
    }
    const auto next = turns_.next(waiting, begun_);
    if (!next) return false;
    overtake(waiting[*next]);
    compute(which[*next]);
    return true;
  }

  void overtake(const waiting_program& taken) {
    for (auto& s : streams_)
      if (s.tenant == taken.tenant && !s.programs.empty() && s.programs.front().first < taken.order)
        most_overtaken_ = std::max(most_overtaken_, ++s.num_overtaken);
  }

  void compute(std::size_t index) {
    const auto tenant = streams_[index].tenant;
    const auto length = streams_[index].programs.front().second;
    streams_[index].programs.pop_front();
    streams_[index].num_overtaken = 0;
    begun_.push_back(tenant);
    order_.push_back(tenant);
    for (auto left = length; left > 0ns;) {
      const auto step = std::min(left, loop_);
      time_ += step, left -= step, computed_[tenant] += step;
      turns_.charge(tenant, step);
      note(tenant);
      on_loop();
      while (left > 0ns && run_next()) {
      }
    }
    begun_.pop_back();
    auto& s = streams_[index];
    s.last = length;
    ++s.num_run;
    on_end(index);
    if (!is_busy(tenant)) turns_.leave(tenant, now());
  }

  /// The device has computed for `running`.
  void note(tenant_id running) {
    waits_since_[running] = time_;
    std::optional<nanoseconds> least, most;
    for (const auto& s : streams_) {
      if (!is_busy(s.tenant)) continue;
      longest_wait_[s.tenant] = std::max(longest_wait_[s.tenant], time_ - waits_since_[s.tenant]);
      const auto service = turns_.service(s.tenant);
      least = least ? std::min(*least, service) : service;
      most = most ? std::max(*most, service) : service;
    }
    if (least) spread_ = std::max(spread_, *most - *least);
  }

  nanoseconds loop_;
  turn_order turns_;
  std::vector<stream> streams_;
  std::vector<tenant_id> begun_, order_;
  std::map<tenant_id, nanoseconds> computed_, waits_since_, longest_wait_;
  nanoseconds time_{}, spread_{};
  std::uint64_t num_submitted_ = 0;
  std::uint32_t most_overtaken_ = 0;
};

double share(nanoseconds of, nanoseconds all) {
  return static_cast<double>(of.count()) / static_cast<double>(all.count());
}

TEST(turn_order, within_a_tenant_goes_by_priority_then_by_submission) {
  turn_order turns;
  turns.add_stream(a);
  turns.enter(a, {});
  const std::vector<waiting_program> waiting{{a, stream_priority::low, 1, {}},
                                             {a, stream_priority::normal, 4, {}},
                                             {a, stream_priority::normal, 3, {}}};
  EXPECT_EQ(turns.next(waiting), 2U);
  EXPECT_EQ(turns.next(waiting, std::vector{a}), std::nullopt) << "its own programs exclude each other";
  EXPECT_EQ(turns.next({}), std::nullopt);
}

TEST(turn_order, two_equal_tenants_take_turns) {
  shared_device device;
  const auto of_a = device.add_stream(a), of_b = device.add_stream(b);
  for (int i = 0; i < 10; ++i) device.submit(of_a, 10ms), device.submit(of_b, 10ms);
  device.run_until(200ms);
  for (std::size_t i = 2; i < device.order().size(); ++i)
    EXPECT_EQ(device.order()[i], device.order()[i - 2]) << "turn " << i;
  EXPECT_EQ(device.computed(a), device.computed(b));
}

TEST(turn_order, a_tenant_of_low_priority_streams_is_not_behind_another_ones_normal_ones) {
  shared_device device;
  const auto of_a = device.add_stream(a, stream_priority::normal),
             of_b = device.add_stream(b, stream_priority::low);
  for (int i = 0; i < 10; ++i) device.submit(of_a, 5ms), device.submit(of_b, 5ms);
  device.run_until(50ms);
  EXPECT_EQ(device.computed(a), device.computed(b));
}

TEST(turn_order, tenants_of_unequal_programs_share_the_time_not_the_turns) {
  shared_device device;
  const auto of_a = device.add_stream(a), of_b = device.add_stream(b);
  device.on_end = [&](std::size_t stream) { device.submit(stream, stream == of_a ? 2ms : 15ms); };
  device.submit(of_a, 2ms), device.submit(of_b, 15ms);
  device.run_until(3s);
  EXPECT_NEAR(share(device.computed(a), device.time()), 0.5, 0.01);
  EXPECT_LE(device.longest_wait(a), 15ms + 2 * 2ms) << "a long program stands aside for short ones";
}

TEST(turn_order, tenants_whose_rounds_are_drafts_and_verifications_share_the_time) {
  for (const bool equal : {true, false}) {
    shared_device device;
    struct member {
      std::size_t draft, verify;
      nanoseconds draft_time, verify_time, pause, resume_at;
    };
    std::vector<member> members;
    for (const auto tenant : {a, b}) {
      const auto unit = tenant == a || equal ? 1ms : 200us; // the second one is five times as fast
      members.push_back({device.add_stream(tenant, stream_priority::low), device.add_stream(tenant), 3 * unit,
                         15 * unit, 200us, 0ns});
    }
    device.on_end = [&](std::size_t stream) {
      for (auto& m : members) {
        if (stream == m.draft) device.submit(m.verify, m.verify_time);
        if (stream == m.verify) m.resume_at = device.time() + m.pause;
      }
    };
    device.on_loop = [&] { // a host's messages take time between a verification and the next draft
      for (auto& m : members)
        if (m.resume_at >= 0ns && device.time() >= m.resume_at) {
          m.resume_at = -1ns;
          device.submit(m.draft, m.draft_time);
        }
    };
    device.run_until(5s);
    EXPECT_NEAR(share(device.computed(a), device.time()), 0.5, 0.02) << equal;
    EXPECT_NEAR(share(device.computed(b), device.time()), 0.5, 0.02) << equal;
    for (const auto& m : members) EXPECT_GT(device.at(m.draft).num_run, 100U);
  }
}

/// Two groups of one model: plain rounds, and rounds whose drafts compute. Another model's rounds are short
/// and always ready, so the plain group's next round is ready whenever the first model's turn comes.
TEST(turn_order, a_draft_is_not_behind_every_round_of_its_own_model) {
  shared_device device;
  const auto rounds = device.add_stream(a), draft = device.add_stream(a, stream_priority::low),
             of_b = device.add_stream(b);
  auto resume_at = -1ns;
  device.on_end = [&](std::size_t stream) {
    if (stream == rounds) resume_at = device.time() + 200us; // a host's messages take time between two rounds
    if (stream == draft) device.submit(draft, 3ms);
    if (stream == of_b) device.submit(of_b, 2ms);
  };
  device.on_loop = [&] {
    if (resume_at < 0ns || device.time() < resume_at) return;
    resume_at = -1ns;
    device.submit(rounds, 15ms);
  };
  device.submit(rounds, 15ms), device.submit(draft, 3ms);
  device.submit(of_b, 2ms), device.submit(of_b, 2ms); // its depth is two
  device.run_until(5s);
  EXPECT_GT(device.at(draft).num_run, 60U);
  EXPECT_GT(device.at(rounds).num_run, 100U);
  EXPECT_NEAR(share(device.computed(a), device.time()), 0.5, 0.02);
  EXPECT_LE(device.most_overtaken(), 1U);
}

TEST(turn_order, a_third_tenant_starts_level_with_the_others) {
  shared_device device;
  const auto of_a = device.add_stream(a), of_b = device.add_stream(b);
  device.on_end = [&](std::size_t stream) { device.submit(stream, 4ms); };
  device.submit(of_a, 4ms), device.submit(of_b, 4ms);
  device.run_until(10s);
  const auto begin = device.time();
  const auto before_a = device.computed(a), before_b = device.computed(b);
  device.submit(device.add_stream(c), 4ms);
  device.run_until(begin + 300ms);
  const auto passed = device.time() - begin;
  EXPECT_NEAR(share(device.computed(c), passed), 1.0 / 3, 0.03);
  EXPECT_NEAR(share(device.computed(a) - before_a, passed), 1.0 / 3, 0.03);
  EXPECT_NEAR(share(device.computed(b) - before_b, passed), 1.0 / 3, 0.03);
}

TEST(turn_order, a_tenant_that_returns_has_no_claim_on_what_it_missed) {
  shared_device device;
  const auto of_a = device.add_stream(a), of_b = device.add_stream(b);
  device.submit(of_a, 4ms), device.submit(of_b, 4ms);
  device.run_until(8ms);
  device.on_end = [&](std::size_t stream) {
    if (stream == of_a) device.submit(stream, 4ms);
  };
  device.submit(of_a, 4ms);
  device.run_until(10s); // alone
  const auto begin = device.time();
  const auto before = device.computed(a);
  device.on_end = [&](std::size_t stream) { device.submit(stream, 4ms); };
  device.submit(of_b, 4ms);
  device.run_until(begin + 200ms);
  EXPECT_NEAR(share(device.computed(a) - before, device.time() - begin), 0.5, 0.03);
}

TEST(turn_order, short_pauses_cost_a_tenant_nothing_and_earn_it_little) {
  turn_order turns;
  for (const auto tenant : {a, b}) turns.add_stream(tenant), turns.enter(tenant, {});
  turns.charge(a, 10ms);
  turns.leave(b, time_point(10ms));
  turns.charge(a, 30ms);
  turns.enter(b, time_point(40ms));
  EXPECT_EQ(turns.service(b), 0ms) << "what it is behind by is still owed";
  turns.leave(b, time_point(40ms));
  turns.charge(a, 10s);
  turns.enter(b, time_point(41ms));
  EXPECT_EQ(turns.service(a) - turns.service(b), nanoseconds(turn_order::max_owed));
  turns.leave(b, time_point(50ms));
  turns.enter(b, time_point(51ms) + turn_order::short_pause);
  EXPECT_EQ(turns.service(a), turns.service(b)) << "after a long one it is behind nobody";
}

TEST(turn_order, a_program_stands_aside_only_for_one_that_ends_before_it_has_caught_up) {
  turn_order turns;
  for (const auto tenant : {a, b, c}) turns.add_stream(tenant), turns.enter(tenant, {});
  turns.charge(a, 10ms);
  const std::vector begun{a};
  const auto waits = [](tenant_id tenant, nanoseconds expected, std::uint64_t order = 1) {
    return waiting_program{tenant, stream_priority::normal, order, expected};
  };
  EXPECT_EQ(turns.next(std::vector{waits(b, 10ms)}, begun), std::nullopt);
  EXPECT_EQ(turns.next(std::vector{waits(b, 9ms)}, begun), 0U);
  EXPECT_EQ(turns.next(std::vector{waits(b, 9ms), waits(c, 4ms)}, begun), 1U) << "the one that ends first";
  EXPECT_EQ(turns.next(std::vector{waits(b, 12ms), waits(b, 1ms, 2)}, begun), std::nullopt)
      << "its tenant's older program goes first";
  turns.charge(b, 6ms);
  EXPECT_EQ(turns.next(std::vector{waits(c, 7ms)}, std::vector{a, b}), std::nullopt)
      << "the one that stands aside already waits for it too";
  EXPECT_EQ(turns.next(std::vector{waits(c, 5ms)}, std::vector{a, b}), 0U);
}

TEST(turn_order, a_tenant_without_streams_is_forgotten) {
  turn_order turns;
  turns.add_stream(a), turns.add_stream(a);
  turns.enter(a, {});
  turns.charge(a, 5s);
  turns.remove_stream(a);
  EXPECT_EQ(turns.service(a), 5s);
  turns.leave(a, time_point(5s));
  turns.remove_stream(a);
  turns.add_stream(b), turns.enter(b, time_point(6s));
  EXPECT_EQ(turns.service(b), 5s) << "new tenants begin where the others are";
}

TEST(turn_order, no_tenant_falls_behind_whatever_the_others_submit) {
  constexpr nanoseconds longest = 20ms;
  const nanoseconds bound = 2 * longest + turn_order::max_owed;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return random() % n; };
    shared_device device;
    const auto num_tenants = 2 + below(4);
    std::vector<std::size_t> steady; // of the tenant that always has work
    for (std::uint32_t t = 1; t <= num_tenants; ++t)
      for (std::uint32_t s = 0; s < 1 + below(3); ++s) {
        const auto stream = device.add_stream(tenant_id{t}, static_cast<stream_priority>(below(2)));
        if (t == 1) steady.push_back(stream);
      }
    const auto length = [&] { return nanoseconds(1 + below(static_cast<std::uint32_t>(longest.count()))); };
    for (const auto stream : steady) device.submit(stream, length());
    device.on_end = [&](std::size_t stream) {
      if (device.at(stream).tenant == tenant_id{1}) device.submit(stream, length());
    };
    device.on_loop = [&] { // the others arrive and leave at random
      if (below(20) == 0)
        for (auto n = below(4); n > 0; --n)
          if (const auto stream = below(device.num_streams());
              device.at(stream).tenant != tenant_id{1} && device.at(stream).programs.size() < 3)
            device.submit(stream, length());
    };
    device.run_until(2s);
    EXPECT_LE(device.spread(), bound);
    EXPECT_LE(device.most_overtaken(), 1U);
    for (std::uint32_t t = 1; t <= num_tenants; ++t)
      EXPECT_LE(device.longest_wait(tenant_id{t}), (num_tenants - 1) * 2 * bound) << "tenant " << t;
    EXPECT_GE(share(device.computed(tenant_id{1}), device.time()) * num_tenants, 0.85);
  }
}

} // namespace
} // namespace paceline::device
