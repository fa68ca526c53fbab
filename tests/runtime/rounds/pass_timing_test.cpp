// The times of passes, measured before the first request.
#include "runtime/rounds/pass_timing.hpp"

#include "runtime/device/ops.hpp"
#include "runtime/model/hash_model.hpp"
#include "tests/support/simulated_device.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>

namespace paceline::rounds {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct no_ops final : device::ops {
  std::string_view level() const noexcept override { return "test"; }
};

/// Runs programs as they are submitted.
class immediate_stream final : public device::stream {
 public:
  device::fence submit(std::string_view, std::vector<device::fence>, device::program work) override {
    no_ops ops;
    ++count_;
    auto state = std::make_shared<device::fence::state>();
    try {
      work(ops);
      state->pass();
    } catch (const std::exception& e) {
      state->pass(error{errc::internal, e.what()});
    }
    return device::fence(state);
  }
  const std::string& name() const noexcept override { return name_; }
  std::uint64_t completed() const noexcept override { return count_; }
  std::uint64_t submitted() const noexcept override { return count_; }

 private:
  std::string name_ = "immediate";
  std::uint64_t count_ = 0;
};

/// Passes take 3 ms and a quarter more for each row beyond the first; the first pass over each size takes
/// twice as long.
class slow_model final : public model::language_model {
 public:
  slow_model(const model::language_model& inner, test::virtual_clock& time) : inner_(inner), time_(time) {}
  const model::model_info& info() const noexcept override { return inner_.info(); }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                     std::span<const layer_index> taps = {}) const override {
    return inner_.make_kv_storage(num_blocks, block_size, taps);
  }
  void forward(device::ops& ops, const device::row_batch& batch, model::kv_storage& kv,
               const model::forward_outputs& outputs) const override {
    if (batch.rows.size() > most_rows) throw std::runtime_error("broken");
    EXPECT_EQ(outputs.logit_rows.size(), batch.rows.size()) << "every row of a draft is verified";
    const auto rows = static_cast<std::uint32_t>(batch.rows.size());
    const bool first = num_passes[rows]++ == 0;
    const bool slow = first || rows == always_slow;
    time_.spend(std::chrono::microseconds(3000) * (3 + rows) / 4 * (slow ? 2 : 1));
    inner_.forward(ops, batch, kv, outputs);
  }
  mutable std::map<std::uint32_t, int> num_passes;
  std::size_t most_rows = 64;
  std::uint32_t always_slow = 0; ///< number of rows of passes that always take twice as long

 private:
  const model::language_model& inner_;
  test::virtual_clock& time_;
};

struct bench {
  explicit bench(std::uint32_t num_blocks = 8) : kv(model.make_kv_storage(num_blocks, 16)) {}
  std::map<std::uint32_t, double> times(nanoseconds budget) {
    std::map<std::uint32_t, double> by_rows;
    for (const auto& [rows, taken] : time_passes(stream, model, *kv, time, budget)) by_rows[rows] = taken;
    return by_rows;
  }
  test::virtual_clock time;
  model::hash_model weightless{{}};
  slow_model model{weightless, time};
  std::unique_ptr<model::kv_storage> kv;
  immediate_stream stream;
};

TEST(pass_timing, gives_the_least_time_of_each_size) {
  bench b;
  const auto times = b.times(std::chrono::seconds(10));
  for (const std::uint32_t rows : {1U, 2U, 3U, 4U, 5U, 8U, 12U, 16U})
    EXPECT_EQ(times.at(rows), 3e6 * (3 + rows) / 4) << rows;
  EXPECT_EQ(times.at(64), 3e6 * 67 / 4);
  EXPECT_EQ(b.model.num_passes.at(64), 2) << "it takes long, and is seldom chosen";
}

TEST(pass_timing, a_size_takes_at_most_what_a_larger_one_took) {
  bench b;
  b.model.always_slow = 6;
  const auto times = b.times(std::chrono::seconds(10));
  EXPECT_EQ(times.at(6), times.at(7));
  EXPECT_LT(times.at(5), times.at(6));
}

TEST(pass_timing, repeats_small_sizes_before_it_runs_large_ones) {
  bench b;
  b.times(
      milliseconds(330)); // the warm-up, two turns, the first of which takes twice as long, and one pass more
  for (const std::uint32_t rows : {1U, 8U, 14U}) EXPECT_GE(b.model.num_passes[rows], 2) << rows;
  EXPECT_FALSE(b.model.num_passes.contains(24));
}

TEST(pass_timing, stops_when_its_time_is_over) {
  bench b;
  const auto times = b.times(milliseconds(60));
  EXPECT_GE(times.size(), 3U);
  EXPECT_LT(times.size(), 10U);
  EXPECT_TRUE(times.contains(1));
  EXPECT_TRUE(times.contains(8)) << "both ends of the curve come first";
  EXPECT_LT(b.time.now() - time_point(std::chrono::hours(1)), milliseconds(120));
}

TEST(pass_timing, measures_one_row_whatever_the_budget) {
  bench b;
  EXPECT_EQ(b.times(nanoseconds(1)).size(), 1U);
}

TEST(pass_timing, keeps_to_the_pool) {
  bench b(1);
  const auto times = b.times(std::chrono::seconds(10));
  EXPECT_EQ(times.rbegin()->first, 16U);
}

TEST(pass_timing, leaves_a_broken_model_to_the_first_request) {
  bench b;
  b.model.most_rows = 0;
  EXPECT_TRUE(b.times(std::chrono::seconds(1)).empty());
}

TEST(pass_timing, keeps_what_was_measured_before_a_size_failed) {
  bench b;
  b.model.most_rows = 16;
  const auto times = b.times(std::chrono::seconds(10));
  EXPECT_TRUE(times.contains(1));
  EXPECT_TRUE(times.contains(16));
  EXPECT_FALSE(times.contains(32));
}

} // namespace
} // namespace paceline::rounds
