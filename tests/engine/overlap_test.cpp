// Overlap on real threads. No durations are compared: two programs that meet inside each other run at the
// same time, and if they cannot, the order of the log shows it.
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "tests/engine/generation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace paceline {
namespace {

using testing::generation;
using testing::make_request;

constexpr std::uint32_t enough_meetings = 8;

/// A meeting point for a verification and a draft: both are inside at the same instant.
class meeting_point {
 public:
  enum side : std::size_t { verification, drafting };

  /// Stops waiting after a timeout, so that a run without overlap ends and fails instead of hanging. After a
  /// timeout, and after enough meetings, nobody waits.
  void meet(side me) {
    std::unique_lock lock(mutex_);
    if (num_meetings_ == enough_meetings || num_misses_ > 2 * enough_meetings) return;
    if (const side other = me == verification ? drafting : verification; waiting_[other]) {
      waiting_[other] = false;
      ++num_meetings_;
      changed_.notify_all();
      return;
    }
    waiting_[me] = true;
    if (changed_.wait_for(lock, std::chrono::seconds(1), [&] { return !waiting_[me]; })) return;
    waiting_[me] = false;
    ++num_misses_;
  }
  std::uint32_t num_meetings() const {
    std::lock_guard lock(mutex_);
    return num_meetings_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::array<bool, 2> waiting_{};
  std::uint32_t num_meetings_ = 0;
  /// The first rounds may miss each other, because the groups are not in step yet.
  std::uint32_t num_misses_ = 0;
};

struct empty_session final : speculation::drafter_session {
  std::unique_ptr<speculation::drafter_session> clone() const override {
    return std::make_unique<empty_session>();
  }
};

/// Proposes useless drafts, and reports when.
class observed_drafter final : public speculation::drafter {
 public:
  using observer = std::function<void(std::span<const speculation::draft_task>)>;
  observed_drafter(const std::string& name, speculation::placement where, observer seen)
      : seen_(std::move(seen)) {
    traits_.name = name;
    traits_.where = where;
  }
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    return std::make_unique<empty_session>();
  }
  void propose(device::ops&, model::kv_storage*, std::span<speculation::draft_task> tasks) override {
    if (seen_) seen_(tasks);
    for (auto& task : tasks) {
      task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
      task.result.tree.add(token_id{1}, speculation::token_tree::root);
    }
  }

 private:
  speculation::drafter_traits traits_;
  observer seen_;
};

/// A hash model with a drafter "worker", on partition 1 if there is one, and one "in_line".
struct overlap_engine {
  explicit overlap_engine(std::uint32_t partitions, config::overlap_mode overlap,
                          observed_drafter::observer on_draft = {},
                          observed_drafter::observer on_verify = {}) {
    config::engine_options options;
    config::model_options model;
    model.name = model.kind = "hash";
    model.context_length = 512;
    auto registry = speculation::drafter_registry::with_built_in();
    const auto add = [&](const std::string& name, speculation::placement where,
                         observed_drafter::observer seen) {
      registry.add(name, [=](const auto&) -> expected<std::unique_ptr<speculation::drafter>> {
        return std::unique_ptr<speculation::drafter>(std::make_unique<observed_drafter>(name, where, seen));
      });
      config::drafter_options drafter;
      drafter.name = drafter.kind = name;
      drafter.partition = 1;
      model.drafters.push_back(drafter);
    };
    add("worker", speculation::placement::worker, std::move(on_draft));
    add("in_line", speculation::placement::in_line, std::move(on_verify));
    options.models.push_back(model);
    options.threads = options.partitions = partitions;
    options.overlap = overlap;
    runtime = engine_probe::start(options, std::move(registry)).value();
  }

  /// Decodes four requests together: two with the worker, and two with the drafter that runs inside the
  /// verification. In any division into groups of two, one group can be drafted for while the other is
  /// verified.
  void decode(std::uint32_t num_tokens) {
    std::array<generation, 4> all;
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      auto request = make_request(6, num_tokens, i);
      request.speculation.drafter = i < 2 ? "worker" : "in_line";
      runtime->submit(request, all[i].sink());
    }
    for (const auto& one : all) one.wait();
  }

  std::vector<activity::span> spans() { return engine_probe(*runtime).log("hash")->last_spans(); }

  std::unique_ptr<engine> runtime;
};

std::uint32_t num_overlaps(const std::vector<activity::span>& spans) {
  std::uint32_t num = 0;
  for (const auto& draft : spans)
    for (const auto& verify : spans)
      if (draft.who == activity::side::draft && verify.who == activity::side::target)
        num += draft.begin < verify.end && verify.begin < draft.end ? 1 : 0;
  return num;
}

TEST(overlap, the_next_group_is_drafted_for_while_the_current_one_is_verified) {
  meeting_point point;
  overlap_engine started(
      2, config::overlap_mode::groups,
      [&](std::span<const speculation::draft_task>) { point.meet(meeting_point::drafting); },
      [&](std::span<const speculation::draft_task>) { point.meet(meeting_point::verification); });
  started.decode(60);
  EXPECT_EQ(point.num_meetings(), enough_meetings);
  EXPECT_GE(num_overlaps(started.spans()), enough_meetings);
  EXPECT_GT(snapshot_at_rest(*started.runtime).models.at(0).overlap_seconds, 0);
}

class overlap_in_advance : public ::testing::TestWithParam<config::overlap_mode> {};

TEST_P(overlap_in_advance, the_next_draft_is_made_while_this_one_is_verified) {
  meeting_point point;
  const auto in_advance = [](const speculation::draft_task& task) {
    return !task.last_round && task.tokens.size() > 6;
  };
  overlap_engine started(
      2, GetParam(),
      [&](std::span<const speculation::draft_task> tasks) {
        if (in_advance(tasks.front())) point.meet(meeting_point::drafting);
      },
      [&](std::span<const speculation::draft_task>) { point.meet(meeting_point::verification); });
  started.decode(60);
  EXPECT_EQ(point.num_meetings(), enough_meetings);
  EXPECT_GE(num_overlaps(started.spans()), enough_meetings);
  const auto counters = snapshot_at_rest(*started.runtime).models.at(0);
  EXPECT_GT(counters.overlap_seconds, 0);
  EXPECT_GE(counters.drafters.at(0).num_foreseen, enough_meetings);
}

INSTANTIATE_TEST_SUITE_P(modes, overlap_in_advance,
                         ::testing::Values(config::overlap_mode::ahead, config::overlap_mode::outcomes),
                         [](const auto& tested) {
                           return std::string(tested.param == config::overlap_mode::ahead ? "ahead"
                                                                                          : "outcomes");
                         });

TEST(overlap, one_group_is_drafted_for_from_its_own_result) {
  overlap_engine started(2, config::overlap_mode::off);
  started.decode(60);
  EXPECT_EQ(num_overlaps(started.spans()), 0U);
}

TEST(overlap, one_set_of_cores_computes_one_thing_at_a_time) {
  overlap_engine started(1, config::overlap_mode::groups);
  started.decode(60);
  const auto spans = started.spans();
  std::uint32_t num_drafts = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (i > 0) {
      EXPECT_GE(spans[i].begin, spans[i - 1].end) << "program " << i;
    }
    num_drafts += spans[i].who == activity::side::draft ? 1 : 0;
  }
  EXPECT_GT(num_drafts, 50U);
  EXPECT_EQ(snapshot_at_rest(*started.runtime).models.at(0).overlap_seconds, 0);
}

} // namespace
} // namespace paceline
