// Models that share cores. Real threads; no durations are compared: one model's stream is far longer than
// what is requested from the other.
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "tests/engine/generation.hpp"
#include "tests/engine/worker_drafter.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace paceline {
namespace {

using testing::generation;
using testing::make_request;

constexpr std::uint32_t long_stream = 400;

config::model_options hash_model(const std::string& name) {
  config::model_options model;
  model.name = name;
  model.kind = "hash";
  model.context_length = long_stream + 96;
  // A pass is longer than the messages between two, so the device always has work.
  model.hash.pass_work = 500000;
  model.drafters.push_back(testing::drafter_of_kind("worker"));
  return model;
}

class shared_device : public ::testing::Test {
 protected:
  shared_device() {
    config::engine_options options;
    options.models = {hash_model("busy"), hash_model("other")};
    options.threads = options.partitions = 1;
    engine_ = engine_probe::start(options, testing::registry_with_worker(watch_)).value();
  }

  generation submit(const std::string& model, std::uint32_t num_tokens, const std::string& drafter) {
    generation out;
    auto request = make_request(6, num_tokens);
    request.model = model;
    request.speculation.drafter = drafter;
    engine_->submit(request, out.sink());
    return out;
  }

  testing::worker_watch watch_;
  std::unique_ptr<engine> engine_;
};

TEST_F(shared_device, a_model_whose_drafter_computes_goes_on_beside_a_busy_one) {
  const auto busy = submit("busy", long_stream, "none");
  busy.wait_for_tokens(8);
  const auto other = submit("other", 8, "worker");
  other.wait();
  EXPECT_EQ(other.tokens().size(), 8U);
  EXPECT_GE(watch_.num_drafts, 4U);
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
