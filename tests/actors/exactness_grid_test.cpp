#include "tests/actors/requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace paceline {
namespace {

using namespace test;

enum class overlapped : std::uint8_t { off, groups, ahead, outcomes, measured };

struct grid_case {
  std::string drafter;
  bool worker = false;
  overlapped how = overlapped::off;
  bool recurrent = false; ///< the target has a recurrent state
};

std::string name_of(const ::testing::TestParamInfo<grid_case>& info) {
  static constexpr std::array names{"_off", "_groups", "_ahead", "_outcomes", "_measured"};
  return info.param.drafter + (info.param.worker ? "_worker" : "_inline") +
         names[static_cast<std::size_t>(info.param.how)] + (info.param.recurrent ? "_recurrent" : "");
}

void set_overlap(simulation_options& options, overlapped how) {
  options.num_partitions = how == overlapped::off ? 1 : 2;
  options.two_groups = how == overlapped::groups;
  options.num_guesses = 2;
  if (how == overlapped::ahead) options.overlap = {ahead_mode::ahead};
  if (how == overlapped::outcomes) options.overlap = {ahead_mode::outcomes};
  if (how == overlapped::measured)
    options.overlap = {ahead_mode::off, ahead_mode::ahead, ahead_mode::outcomes};
}

/// An output with one token inserted, one left out and one replaced. It is what a client may have predicted.
std::vector<token_id> nearly(std::vector<token_id> output) {
  output.insert(output.begin() + 4, token_id{9});
  output.erase(output.begin() + 10);
  output[15] = token_id{(output[15].value + 1) % 64};
  return output;
}

/// Drafters of the product that find something to propose in the grid's requests.
constexpr std::array<std::string_view, 14> proposing = {
    "bigram",    "lookahead", "nasd",       "ngram_tree", "pass",   "pass_other", "ppd",
    "ppd_chain", "ppd_other", "prediction", "random",     "suffix", "synthetic",  "unigram"};

std::vector<simulated_drafter> drafters_of(const grid_case& param, std::uint32_t length,
                                           const std::shared_ptr<std::uint64_t>& num_wanted) {
  std::vector<simulated_drafter> drafters;
  if (param.drafter == "auto") { // one drafter is sometimes right, one often, and one never
    for (const char* candidate : {"ngram", "half_right", "always_wrong"})
      drafters.push_back({drafter_called(candidate, small_target(), num_wanted), length, 0});
  } else if (param.drafter == "auto_of_workers") { // including drafters that are asked a round ahead
    drafters.push_back({drafter_called("ngram", small_target()), length, 0});
    drafters.push_back(
        {placed(drafter_called("half_right", small_target()), speculation::placement::worker), length, 1});
    drafters.push_back({drafter_called("model_other", small_target()), length, 1});
  } else if (param.drafter != "none") {
    auto made = drafter_called(param.drafter, small_target(), num_wanted);
    if (param.worker) made = placed(std::move(made), speculation::placement::worker);
    drafters.push_back({std::move(made), length, 1});
  }
  return drafters;
}

/// Totals over the drafts of a run's requests.
struct run_figures {
  float temperature = 0;
  std::uint32_t concurrency = 0, drafted = 0, accepted = 0;
  std::uint64_t num_wanted = 0; ///< nodes that "tree" would have proposed with cells for all
};

/// Checks what a drafter's name says about its drafts.
void expect_drafts_as_named(const grid_case& param, const run_figures& run) {
  if (param.drafter == "always_right" || param.drafter == "model" || param.drafter == "feature" ||
      param.drafter == "model_foreign" || param.drafter == "head" || param.drafter == "head_path") {
    ASSERT_GT(run.drafted, 0U);
    ASSERT_EQ(run.accepted, run.drafted);
  }
  if (param.drafter == "always_wrong") {
    ASSERT_GT(run.drafted, 0U);
    ASSERT_EQ(run.accepted, 0U);
  }
  if (param.drafter == "auto" && run.concurrency == 1) {
    ASSERT_GT(2 * run.accepted, run.drafted) << "it should have found the drafter that is often right";
    ASSERT_GT(run.accepted, 0U);
  }
  if (param.drafter == "twins") { // one of three siblings is wrong and two are equal
    ASSERT_GT(run.drafted, 0U);
    ASSERT_EQ(run.accepted * 3, run.drafted);
  }
  if (std::ranges::find(proposing, std::string_view(param.drafter)) != proposing.end()) {
    ASSERT_GT(run.drafted, 0U);
  }
  const bool is_good_head =
      param.drafter.starts_with("head") && param.drafter.find("other") == std::string::npos;
  if (param.drafter == "prediction" || param.drafter == "synthetic" || is_good_head) {
    ASSERT_GT(run.accepted, 0U);
  }
  // Look-ahead rows give the likeliest tokens, but the second request's penalties select others.
  if (param.drafter == "pass" && run.temperature == 0) {
    ASSERT_GT(run.accepted, 0U);
    if (run.concurrency == 1) {
      ASSERT_EQ(run.accepted, run.drafted);
    }
  }
  if (param.drafter == "ppd" && run.temperature == 0) {
    ASSERT_GT(run.accepted, 0U);
  }
  if (param.drafter == "tree") {
    ASSERT_GT(run.drafted, 0U);
    ASSERT_LE(run.drafted, run.num_wanted); // a lease that a late message brings comes a round late
  }
}

class exactness_grid : public ::testing::TestWithParam<grid_case> {
 protected:
  void run(std::uint32_t length, float temperature, std::uint32_t concurrency);

  std::uint64_t num_foreseen_ = 0, by_workers_ = 0; ///< of all runs
};

void exactness_grid::run(std::uint32_t length, float temperature, std::uint32_t concurrency) {
  const auto& param = GetParam();
  simulation_options options;
  options.seed = length * 100 + concurrency;
  options.shuffle = true;
  set_overlap(options, param.how);
  options.target = small_target();
  options.target.recurrent = param.recurrent;
  if (param.drafter.starts_with("auto")) {
    options.auto_draft_length = length;
    options.target_cost = expensive_rows; // makes the choice of the drafter matter
  }
  auto num_wanted = std::make_shared<std::uint64_t>();
  simulation sim(options, drafters_of(param, length, num_wanted));
  std::vector<generation_request> requests;
  for (std::uint32_t n = 0; n < concurrency; ++n) {
    // "auto" begins with the record of its drafters on other texts, so it needs time to find out how good
    // they are here.
    requests.push_back(request_number(n, temperature, param.drafter.starts_with("auto") ? 48 : 24));
    if (param.drafter == "prediction" || param.drafter == "synthetic")
      requests.back().prediction = nearly(decode_plainly(sim.target(), requests.back()));
    sim.submit(requests.back(), param.drafter == "none"
                                    ? plain_decoding
                                    : drafter_index{param.drafter.starts_with("auto") ? 4U : 1U});
  }
  SCOPED_TRACE("length " + std::to_string(length) + " temperature " + std::to_string(temperature) +
               " concurrency " + std::to_string(concurrency) + " seed " + std::to_string(options.seed));
  ASSERT_TRUE(sim.run());
  run_figures figures{temperature, concurrency, 0, 0, *num_wanted};
  for (std::uint32_t n = 0; n < concurrency; ++n) {
    ASSERT_EQ(sim.client(n).tokens, decode_plainly(sim.target(), requests[n])) << "request " << n;
    ASSERT_EQ(sim.client(n).finish, finish_reason::length);
    ASSERT_FALSE(sim.client(n).gap);
    figures.drafted += sim.client(n).speculation->num_draft_tokens;
    figures.accepted += sim.client(n).speculation->num_accepted_tokens;
  }
  ASSERT_NO_FATAL_FAILURE(expect_drafts_as_named(param, figures));
  if (param.drafter == "auto_of_workers") {
    const auto& by = sim.scheduler().counters().drafters;
    by_workers_ += by[2].num_draft_tokens + by[3].num_draft_tokens;
  }
  const auto& foreseen = sim.scheduler().counters().drafters.back();
  if (param.how == overlapped::ahead || param.how == overlapped::outcomes) {
    ASSERT_LE(foreseen.num_ready, foreseen.num_foreseen);
    num_foreseen_ += foreseen.num_foreseen;
  }
  if (param.how == overlapped::ahead && (param.drafter == "always_right" || param.drafter == "model")) {
    ASSERT_EQ(foreseen.num_ready, foreseen.num_foreseen) << "all is accepted, and the guess is right";
  }
  ASSERT_EQ(sim.check_invariants(), "");
  ASSERT_EQ(sim.pools().usage(kv::pool_id{0}).num_active, 0U);
  ASSERT_EQ(sim.scheduler().counters().stale_drafts, 0U);
}

/// The promise: with any drafter the tokens are those of plain decoding, which is computed here from the
/// tokens alone.
TEST_P(exactness_grid, tokens_equal_plain_decoding) {
  const auto& param = GetParam();
  for (std::uint32_t length = 1; length <= 8; ++length)
    for (const float temperature : {0.0F, 1.0F})
      for (const std::uint32_t concurrency : {1U, 3U, 8U})
        ASSERT_NO_FATAL_FAILURE(run(length, temperature, concurrency));
  EXPECT_EQ(by_workers_ > 0, param.drafter == "auto_of_workers");
  const bool in_advance = param.how == overlapped::ahead || param.how == overlapped::outcomes;
  const bool waits = param.drafter == "feature" ||
                     param.drafter.starts_with("head") || // these need the rows of the verdict
                     param.drafter == "suffix";           // has no clone
  EXPECT_EQ(num_foreseen_ > 0, in_advance && !waits);
}

INSTANTIATE_TEST_SUITE_P(
    drafters, exactness_grid,
    ::testing::Values(
        grid_case{"none"}, grid_case{"ngram"}, grid_case{"always_right"}, grid_case{"always_wrong"},
        grid_case{"half_right"}, grid_case{"tree"}, grid_case{"auto"}, grid_case{"twins"},
        grid_case{"twins", true, overlapped::groups}, grid_case{"feature"}, grid_case{"ngram_tree"},
        grid_case{"suffix"}, grid_case{"prediction"}, grid_case{"unigram"}, grid_case{"bigram"},
        grid_case{"copy"}, grid_case{"random"}, grid_case{"synthetic"}, grid_case{"nasd"},
        grid_case{"lookahead"}, grid_case{"suffix", true, overlapped::groups},
        grid_case{"prediction", true, overlapped::groups}, grid_case{"nasd", true, overlapped::groups},
        grid_case{"lookahead", true, overlapped::groups}, grid_case{"model", true},
        grid_case{"model_other", true}, grid_case{"always_right", true, overlapped::groups},
        grid_case{"always_wrong", true, overlapped::groups},
        grid_case{"half_right", true, overlapped::groups}, grid_case{"tree", true, overlapped::groups},
        grid_case{"model", true, overlapped::groups}, grid_case{"model_other", true, overlapped::groups}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    drafters_with_a_model, exactness_grid,
    ::testing::Values(
        grid_case{"model_static", true}, grid_case{"model_dynamic", true, overlapped::groups},
        grid_case{"model_optimal", true}, grid_case{"model_other_static", true, overlapped::groups},
        grid_case{"model_other_dynamic", true}, grid_case{"model_other_optimal", true, overlapped::groups},
        grid_case{"model_greedy_dynamic", true}, grid_case{"self", true},
        grid_case{"self_dynamic", true, overlapped::groups}, grid_case{"cascade", true},
        grid_case{"cascade", true, overlapped::groups}, grid_case{"model_foreign", true},
        grid_case{"model_foreign_other_dynamic", true, overlapped::groups},
        grid_case{"model_foreign_text", true}, grid_case{"model_foreign_text", true, overlapped::groups},
        grid_case{"head", true}, grid_case{"head", true, overlapped::groups}, grid_case{"head_dynamic", true},
        grid_case{"head_dynamic", true, overlapped::groups}, grid_case{"head_other", true},
        grid_case{"head_other_dynamic", true, overlapped::groups}, grid_case{"head_block", true},
        grid_case{"head_block_causal", true, overlapped::groups}, grid_case{"head_masks", true},
        grid_case{"head_block_dynamic", true, overlapped::groups},
        grid_case{"head_masks_dynamic", true, overlapped::groups}),
    name_of);

/// Heads of other shapes: without context, and with all levels from one row.
INSTANTIATE_TEST_SUITE_P(heads, exactness_grid,
                         ::testing::Values(grid_case{"head_path", true},
                                           grid_case{"head_path_static", true, overlapped::groups},
                                           grid_case{"head_path_other_static", true},
                                           grid_case{"head_parallel", true},
                                           grid_case{"head_parallel_static", true},
                                           grid_case{"head_parallel_static", true, overlapped::groups},
                                           grid_case{"head_parallel_other_static", true, overlapped::groups},
                                           grid_case{"head_parallel_static", true, overlapped::ahead},
                                           grid_case{"head_path_static", true, overlapped::outcomes}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(drafters_with_rows_in_the_pass, exactness_grid,
                         ::testing::Values(grid_case{"pass"}, grid_case{"pass", false, overlapped::groups},
                                           grid_case{"pass_other"}, grid_case{"ppd"},
                                           grid_case{"ppd", false, overlapped::groups},
                                           grid_case{"ppd_chain"}, grid_case{"ppd_other"}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(recurrent_targets, exactness_grid,
                         ::testing::Values(grid_case{"none", false, overlapped::off, true},
                                           grid_case{"half_right", false, overlapped::off, true},
                                           grid_case{"tree", false, overlapped::off, true},
                                           grid_case{"twins", true, overlapped::groups, true},
                                           grid_case{"lookahead", false, overlapped::off, true},
                                           grid_case{"ppd", false, overlapped::groups, true},
                                           grid_case{"auto", false, overlapped::off, true},
                                           grid_case{"model", true, overlapped::ahead, true},
                                           grid_case{"model_other_dynamic", true, overlapped::outcomes, true},
                                           grid_case{"head_dynamic", true, overlapped::groups, true},
                                           grid_case{"head_block", true, overlapped::off, true}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    drafts_in_advance, exactness_grid,
    ::testing::Values(
        grid_case{"always_right", true, overlapped::ahead},
        grid_case{"always_wrong", true, overlapped::ahead}, grid_case{"half_right", true, overlapped::ahead},
        grid_case{"half_right", true, overlapped::outcomes}, grid_case{"model", true, overlapped::ahead},
        grid_case{"model_other", true, overlapped::ahead}, grid_case{"model", true, overlapped::outcomes},
        grid_case{"model_other", true, overlapped::outcomes},
        grid_case{"model_dynamic", true, overlapped::ahead},
        grid_case{"model_other_dynamic", true, overlapped::outcomes},
        grid_case{"model_static", true, overlapped::outcomes}, grid_case{"self", true, overlapped::outcomes},
        grid_case{"cascade", true, overlapped::ahead}, grid_case{"cascade", true, overlapped::outcomes},
        grid_case{"tree", true, overlapped::ahead}, grid_case{"feature", true, overlapped::ahead},
        grid_case{"head", true, overlapped::ahead}, grid_case{"suffix", true, overlapped::outcomes},
        grid_case{"model_foreign", true, overlapped::outcomes},
        grid_case{"model_foreign_text", true, overlapped::outcomes},
        grid_case{"model_other", true, overlapped::measured},
        grid_case{"auto_of_workers", true, overlapped::off},
        grid_case{"auto_of_workers", true, overlapped::groups},
        grid_case{"auto_of_workers", true, overlapped::measured}),
    name_of);

} // namespace
} // namespace paceline
