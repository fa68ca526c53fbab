#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace test;

/// A drafter whose drafting takes virtual time.
class slow_drafter final : public speculation::drafter {
public:
  slow_drafter(std::unique_ptr<speculation::drafter> inner, virtual_clock*& time, std::chrono::nanoseconds cost)
      : inner_(std::move(inner)), time_(time), cost_(cost) {}
  const speculation::drafter_traits& traits() const noexcept override { return inner_->traits(); }
  std::unique_ptr<speculation::drafter_session> open(request_id r) override { return inner_->open(r); }
  void propose(device::ops& ops, model::kv_storage* kv, std::span<speculation::draft_task> tasks) override {
    inner_->propose(ops, kv, tasks);
    time_->spend(cost_);
  }

private:
  std::unique_ptr<speculation::drafter> inner_;
  virtual_clock*& time_;
  std::chrono::nanoseconds cost_;
};

struct overlap_run {
  std::vector<device_span> spans;
  std::chrono::nanoseconds both{};
  time_point end;
};

overlap_run run_with(std::uint32_t num_partitions, bool two_groups) {
  virtual_clock* time = nullptr;
  simulation_options options;
  options.target = small_target();
  options.num_partitions = num_partitions;
  options.two_groups = two_groups;
  auto inner = placed(drafter_called("always_right", small_target()), speculation::placement::worker);
  std::vector<simulated_drafter> drafters;
  drafters.push_back({std::make_unique<slow_drafter>(std::move(inner), time, std::chrono::milliseconds(2)), 3, 1});
  simulation sim(options, std::move(drafters));
  time = &sim.device().time();
  for (std::uint32_t n = 0; n < 4; ++n) sim.submit(request_number(n, 0.0F), 1);
  EXPECT_TRUE(sim.run());
  overlap_run out;
  out.spans = sim.device().spans();
  out.end = sim.device().time().now();
  for (const auto& a : out.spans)
    for (const auto& b : out.spans)
      if (a.label == "draft" && b.label == "verify") {
        const auto begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
        if (begin < end) out.both += end - begin;
      }
  return out;
}

TEST(overlap, drafting_the_next_group_runs_while_the_current_one_is_verified) {
  const auto off = run_with(2, false);
  const auto groups = run_with(2, true);
  EXPECT_EQ(off.both.count(), 0) << "one group drafts from its own result";
  std::chrono::nanoseconds drafting{};
  for (const auto& s : groups.spans)
    if (s.label == "draft") drafting += s.end - s.begin;
  EXPECT_GT(groups.both, drafting / 2);
}

TEST(overlap, one_pool_of_cores_computes_one_thing_at_a_time_in_order) {
  const auto run = run_with(1, true);
  EXPECT_EQ(run.both.count(), 0);
  for (std::size_t i = 1; i < run.spans.size(); ++i) EXPECT_GE(run.spans[i].begin, run.spans[i - 1].end);
}

TEST(overlap, the_targets_stream_never_waits_for_the_host) {
  simulation_options options;
  options.target = small_target();
  simulation sim(options);
  sim.submit(request_number(0, 0.0F, 60));
  ASSERT_TRUE(sim.run());
  // In virtual time messages cost nothing, so a gap would be a round that was not enqueued before the one in front of it
  // ended: with real messages, a pause of the device.
  const auto& spans = sim.device().spans();
  for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_EQ(spans[i].begin, spans[i - 1].end) << "round " << i;
}

} // namespace
} // namespace paceline
