// Each intrinsic of gpu/kernels/intrinsics.cuh against its comment: the model on the emulation, and the
// instruction on a GPU. If both agree, kernels that are correct on the emulation are correct on a GPU.
#include "gpu/kernels/streamed_params.hpp"
#include "gpu/owners.hpp"
#include "gpu/step_graph.hpp"
#include "runtime/device/float16.hpp"
#include "tests/gpu/tested_device.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace paceline::gpu {
namespace {

using matrix_a = std::array<std::array<float, 16>, 16>;
using matrix_b = std::array<std::array<float, 8>, 16>;
using matrix_c = std::array<std::array<float, 8>, 16>;

/// Two values, exact in float16, as the word that holds both.
std::uint32_t pair_of(float low, float high) {
  return device::f16_of_float(low) | std::uint32_t{device::f16_of_float(high)} << 16;
}

struct probe_results {
  matrix_c products;
  std::vector<std::byte> arrived;
  std::vector<std::uint32_t> halves;
  std::vector<float> widened;
  std::vector<std::uint32_t> half_products, doubled;
};

class intrinsics : public gpu_test {
 protected:
  probe_results probe(const matrix_a& a, const matrix_b& b, const matrix_c& c,
                      const std::vector<std::byte>& copied) {
    std::vector<std::uint32_t> words_a, words_b;
    std::vector<float> values_c;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const std::uint32_t g = lane / 4, t = lane % 4 * 2;
      for (std::uint32_t i = 0; i < 4; ++i) {
        const auto& row = a[g + i % 2 * 8];
        words_a.push_back(pair_of(row[t + i / 2 * 8], row[t + 1 + i / 2 * 8]));
        values_c.push_back(c[g + i / 2 * 8][t + i % 2]);
      }
      for (std::uint32_t i = 0; i < 2; ++i) words_b.push_back(pair_of(b[t + i * 8][g], b[t + 1 + i * 8][g]));
    }
    probe_params params{};
    params.a = upload(words_a), params.b = upload(words_b), params.c = upload(values_c);
    params.copied = upload(copied);
    params.products = upload(std::vector<float>(128));
    params.arrived = upload(std::vector<std::byte>(copied.size()));
    params.halves = upload(std::vector<std::uint32_t>(32));
    params.widened = upload(std::vector<float>(32));
    params.half_products = upload(std::vector<std::uint32_t>(32));
    params.doubled = upload(std::vector<std::uint32_t>(32));
    launch(params);
    probe_results out;
    const auto products = download(params.products, 128);
    for (std::uint32_t lane = 0; lane < 32; ++lane)
      for (std::uint32_t i = 0; i < 4; ++i)
        out.products[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = products[lane * 4 + i];
    out.arrived = download(params.arrived, copied.size());
    out.halves = download(params.halves, 32);
    out.widened = download(params.widened, 32);
    out.half_products = download(params.half_products, 32);
    out.doubled = download(params.doubled, 32);
    return out;
  }

  matrix_c products(const matrix_a& a, const matrix_b& b, const matrix_c& c) {
    return probe(a, b, c, std::vector<std::byte>(1024)).products;
  }

  template <class Matrix, class Next>
  static Matrix fill(const Next& next) {
    Matrix out;
    for (auto& row : out)
      for (float& v : row) v = next();
    return out;
  }

  /// The magnitude of a factor with which the core decides how many bits of a sum are kept.
  static double counted(float factor) { return std::max(double{std::fabs(factor)}, 0x1p-14); }
  /// Integers below `bound`.
  auto integers(int bound) {
    return [this, bound] { return static_cast<float>(static_cast<int>(random_() % (2 * bound)) - bound); };
  }
  /// Values of all magnitudes of float16.
  auto halves() {
    return [this] {
      const auto bits = static_cast<std::uint16_t>(random_() & 0xffffU);
      return (bits & 0x7c00U) == 0x7c00U ? 1.5F : device::float_of_f16(bits);
    };
  }

 private:
  void launch(const probe_params& params) {
    const device_context on{*tested_runtime(), 0, "cuda:0"};
    on.require(on.api.use(0), "cudaSetDevice");
    command_queue queue(on, 0);
    queue.launch(kernel_id::probe_intrinsics, {1, 1, 32, 1024}, &params, sizeof params);
    event done(on);
    done.record(queue);
    done.wait();
  }
};

TEST_F(intrinsics, tiles_are_multiplied_as_their_layout_says) {
  for (int round = 0; round < 5; ++round) { // sums of integers are exact in any order
    const auto a = fill<matrix_a>(integers(256)), b_wide = fill<matrix_a>(integers(256));
    const auto c = fill<matrix_c>(integers(10000));
    matrix_b b;
    for (std::size_t k = 0; k < 16; ++k)
      for (std::size_t n = 0; n < 8; ++n) b[k][n] = b_wide[k][n];
    matrix_c expected = c;
    for (std::size_t m = 0; m < 16; ++m)
      for (std::size_t n = 0; n < 8; ++n)
        for (std::size_t k = 0; k < 16; ++k) expected[m][n] += a[m][k] * b[k][n];
    EXPECT_EQ(products(a, b, c), expected);
  }
}

TEST_F(intrinsics, sums_of_a_tile_lose_no_more_than_the_contract_allows) {
  for (int round = 0; round < 5; ++round) {
    const auto a = fill<matrix_a>(halves());
    const auto b = fill<matrix_b>(halves());
    const auto c = fill<matrix_c>([&] { return halves()() * halves()(); });
    const matrix_c actual = products(a, b, c);
    for (std::size_t m = 0; m < 16; ++m) {
      for (std::size_t n = 0; n < 8; ++n) {
        double sum = c[m][n], largest = std::fabs(sum);
        for (std::size_t k = 0; k < 16; ++k) {
          sum += double{a[m][k]} * b[k][n];
          if (a[m][k] != 0 && b[k][n] != 0) largest = std::max(largest, counted(a[m][k]) * counted(b[k][n]));
        }
        EXPECT_LE(std::fabs(actual[m][n] - sum), 17 * 0x1p-23 * largest + 0x1p-126);
      }
    }
  }
}

TEST_F(intrinsics, columns_of_a_tile_do_not_depend_on_each_other_or_on_their_place) {
  const auto a = fill<matrix_a>(halves());
  const auto b = fill<matrix_b>(halves());
  const auto c = fill<matrix_c>(halves());
  const matrix_c together = products(a, b, c);
  for (std::size_t shift = 1; shift < 8; ++shift) {
    matrix_b moved = fill<matrix_b>(halves());
    matrix_c moved_c = fill<matrix_c>(halves());
    const std::size_t spoilt = shift; // a column that is not finite
    for (std::size_t n = 0; n < 4; ++n) {
      const std::size_t to = (n + shift) % 8;
      for (std::size_t k = 0; k < 16; ++k) moved[k][to] = b[k][n];
      for (std::size_t m = 0; m < 16; ++m) moved_c[m][to] = c[m][n];
    }
    moved[3][(spoilt + 5) % 8] = std::numeric_limits<float>::infinity();
    const matrix_c apart = products(a, moved, moved_c);
    for (std::size_t n = 0; n < 4; ++n)
      for (std::size_t m = 0; m < 16; ++m)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(apart[m][(n + shift) % 8]),
                  std::bit_cast<std::uint32_t>(together[m][n]));
  }
}

TEST_F(intrinsics, zeros_and_subnormals_count_and_nothing_is_flushed) {
  matrix_a a{};
  matrix_b b{};
  matrix_c c{};
  for (std::size_t m = 0; m < 16; ++m) a[m][m] = 0x1p-24F; // the smallest float16
  for (std::size_t n = 0; n < 8; ++n) b[n][n] = 0x1p-24F * static_cast<float>(n);
  const matrix_c actual = products(a, b, c);
  for (std::size_t m = 0; m < 16; ++m)
    for (std::size_t n = 0; n < 8; ++n)
      EXPECT_EQ(actual[m][n], m == n ? 0x1p-48F * static_cast<float>(n) : 0.0F);
}

TEST_F(intrinsics, values_that_are_not_finite_spoil_their_own_sums_only) {
  const float infinity = std::numeric_limits<float>::infinity();
  auto a = fill<matrix_a>(integers(8));
  const auto b = fill<matrix_b>([] { return 1.0F; });
  auto c = fill<matrix_c>(integers(8));
  const matrix_c before = products(a, b, c);
  a[2][11] = infinity, a[9][0] = -infinity, a[9][15] = infinity, c[4][6] = infinity;
  const matrix_c after = products(a, b, c);
  for (std::size_t m = 0; m < 16; ++m)
    for (std::size_t n = 0; n < 8; ++n) {
      if (m == 9)
        EXPECT_TRUE(std::isnan(after[m][n]));
      else
        EXPECT_EQ(after[m][n], m == 2 || (m == 4 && n == 6) ? infinity : before[m][n]);
    }
}

TEST_F(intrinsics, copies_have_arrived_for_all_lanes_after_the_wait_and_a_barrier) {
  std::vector<std::byte> copied(1024);
  for (auto& b : copied) b = static_cast<std::byte>(random_());
  const auto arrived = probe({}, {}, {}, copied).arrived;
  for (std::size_t part = 0; part < 2; ++part)
    for (std::size_t lane = 0; lane < 32; ++lane)
      for (std::size_t i = 0; i < 16; ++i)
        EXPECT_EQ(arrived[part * 512 + lane * 16 + i], copied[part * 512 + (lane + 1) % 32 * 16 + i]);
}

TEST_F(intrinsics, float16_numbers_round_to_the_nearest_even) {
  matrix_a a = fill<matrix_a>(halves());
  matrix_c c = fill<matrix_c>([&] { return halves()() * 1.0009F; });
  c[0][0] = 2049, c[0][1] = 2051; // ties
  a[0][0] = 0, a[0][1] = 0;
  c[1][0] = 65519.996F, c[1][1] = 0x1p-25F; // the largest that is not infinity; a tie between 0 and 2^-24
  a[1][0] = 0, a[1][1] = 0;
  a[2][0] = 15 * 0x1p-24F, a[10][0] = 63 * 512, a[2][1] = 0x1p-24F, a[10][1] = 0.5F; // 2^-25 is a tie with 0
  const auto results = probe(a, {}, c, std::vector<std::byte>(1024));
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t row = lane / 4, col = lane % 4 * 2;
    const auto less = [&](std::uint32_t i) {
      return device::f16_of_float(device::float_of_f16(device::f16_of_float(c[row][col + i])) -
                                  a[row][col + i]);
    };
    EXPECT_EQ(results.halves[lane] & 0xffffU, less(0)) << c[row][col] << " - " << a[row][col];
    EXPECT_EQ(results.halves[lane] >> 16, less(1)) << c[row][col + 1] << " - " << a[row][col + 1];
    EXPECT_EQ(results.widened[lane], a[row][col]);
  }
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t row = lane / 4, col = lane % 4 * 2;
    EXPECT_EQ(results.half_products[lane],
              pair_of(a[row][col] * a[row + 8][col], a[row][col + 1] * a[row + 8][col + 1]));
    const float low = a[row][col], high = a[row + 8][col + 1];
    EXPECT_EQ(results.doubled[lane], pair_of(low, low) ^ (pair_of(high, high) * 3));
  }
  EXPECT_EQ(results.half_products[8],
            pair_of(945 * 0x1p-15F, 0)); // codes times scales, as products have them
  EXPECT_EQ(results.halves[0], pair_of(2048, 2052));
  EXPECT_EQ(results.halves[4], pair_of(65504, 0));
}

TEST_F(intrinsics, kernels_that_start_early_find_what_those_ahead_wrote) {
  const std::uint32_t num_values = tested_gpu_is_emulated() ? 500 : 200000, num_launches = 40;
  const launch_shape shape{(num_values + 127) / 128, 1, 128, 128 * 16};
  runtime_api& api = *tested_runtime();
  device_facts facts;
  ASSERT_EQ(api.inspect(0, facts), 0);
  ASSERT_EQ(api.use(0), 0);
  ASSERT_EQ(api.find_kernel_target(facts.kernel_target), 0);
  const auto earliest = facts.can_start_early() ? launch_start::early : launch_start::at_end;
  const device_context on{api, 0, "cuda:0", arithmetic::reference, {}, earliest};
  on.require(api.use(0), "cudaSetDevice");
  float* const places[2] = {upload(std::vector<float>(num_values * 4)),
                            upload(std::vector<float>(num_values * 4))};
  const auto params = [&](std::uint32_t i) {
    return probe_turns_params{places[i % 2], places[1 - i % 2], num_values, probe_turn::in_turn};
  };
  command_queue queue(on, 0);
  for (std::uint32_t i = 0; i < num_launches; ++i) {
    const auto said = params(i);
    queue.launch(kernel_id::probe_turns, shape, &said, sizeof said);
  }
  step_graph graph(on);
  for (std::uint32_t i = 0; i < num_launches; ++i) {
    const auto said = params(i);
    graph.add({kernel_id::probe_turns, shape, &said, sizeof said});
  }
  graph.instantiate();
  for (int time = 0; time < 2; ++time) graph.launch(queue);
  event done(on);
  done.record(queue);
  done.wait();
  const auto values = download(places[0], num_values * 4);
  for (std::uint32_t i = 0; i < num_values; ++i) ASSERT_EQ(values[i * 4], 3.0F * num_launches) << i;
  if (const auto num_early = num_early_launches()) {
    EXPECT_EQ(*num_early, 3 * (num_launches - 1));
  }
}

} // namespace
} // namespace paceline::gpu
