// Models that share one set of cores. Real threads, and no duration is compared: one model's stream is far
// longer than what the other one is asked for.
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "tests/engine/generation.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace paceline {
namespace {

using testing::generation;
using testing::make_request;

constexpr std::uint32_t long_stream = 400;

struct empty_session final : speculation::drafter_session {
  std::unique_ptr<speculation::drafter_session> clone() const override {
    return std::make_unique<empty_session>();
  }
};

/// Proposes nonsense on a stream of its own, and counts how often.
class counting_drafter final : public speculation::drafter {
 public:
  explicit counting_drafter(std::atomic<std::uint32_t>& num_drafts) : num_drafts_(&num_drafts) {
    traits_.name = "worker";
    traits_.where = speculation::placement::worker;
  }
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    return std::make_unique<empty_session>();
  }
  void propose(device::ops&, model::kv_storage*, std::span<speculation::draft_task> tasks) override {
    ++*num_drafts_;
    for (auto& task : tasks) {
      task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
      task.result.tree.add(token_id{1}, speculation::token_tree::root);
    }
  }

 private:
  speculation::drafter_traits traits_;
  std::atomic<std::uint32_t>* num_drafts_;
};

config::model_options hash_model(const std::string& name) {
  config::model_options model;
  model.name = name;
  model.kind = "hash";
  model.context_length = long_stream + 96;
  model.hash.pass_work = 500000; // a pass outlasts the messages between two, so the device has always work
  config::drafter_options drafter;
  drafter.name = drafter.kind = "worker";
  model.drafters.push_back(drafter);
  return model;
}

class shared_device : public ::testing::Test {
 protected:
  shared_device() {
    config::engine_options options;
    options.models = {hash_model("busy"), hash_model("other")};
    options.threads = options.partitions = 1;
    auto registry = speculation::drafter_registry::with_built_in();
    registry.add("worker", [this](const auto&) -> expected<std::unique_ptr<speculation::drafter>> {
      return std::unique_ptr<speculation::drafter>(std::make_unique<counting_drafter>(num_drafts_));
    });
    engine_ = engine_probe::start(options, std::move(registry)).value();
  }

  generation submit(const std::string& model, std::uint32_t num_tokens, const std::string& drafter) {
    generation out;
    auto request = make_request(6, num_tokens);
    request.model = model;
    request.speculation.drafter = drafter;
    engine_->submit(request, out.sink());
    return out;
  }

  std::atomic<std::uint32_t> num_drafts_{0};
  std::unique_ptr<engine> engine_;
};

TEST_F(shared_device, a_model_whose_drafter_computes_goes_on_beside_a_busy_one) {
  const auto busy = submit("busy", long_stream, "none");
  busy.wait_for_tokens(8);
  const auto other = submit("other", 8, "worker");
  other.wait();
  EXPECT_EQ(other.tokens().size(), 8U);
  EXPECT_GE(num_drafts_, 4U);
  EXPECT_EQ(busy.last().finish, finish_reason::none) << "the other model waited for the end of the busy one";
  busy.wait();
}

TEST_F(shared_device, models_whose_drafters_compute_do_not_hold_each_other_up) {
  const auto busy = submit("busy", long_stream, "worker");
  busy.wait_for_tokens(8);
  for (const auto* const drafter : {"worker", "none"}) {
    const auto other = submit("other", 8, drafter);
    other.wait();
    EXPECT_EQ(other.tokens().size(), 8U);
  }
  EXPECT_EQ(busy.last().finish, finish_reason::none) << "the other model waited for the end of the busy one";
  busy.wait();
}

} // namespace
} // namespace paceline
