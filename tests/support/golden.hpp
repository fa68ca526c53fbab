#pragma once

#include "runtime/base/ids.hpp"
#include "tests/support/cpu_model.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

namespace paceline::test {

/// One prompt and the greedy answer of the reference (float32, from the same model file).
struct golden_prompt {
  std::vector<token_id> prompt;
  std::vector<token_id> answer;
  std::vector<double> margin; ///< difference of the two best log-probabilities, for each answer token
  std::vector<std::vector<std::pair<token_id, double>>> top; ///< best log-probabilities, best first, likewise
};

/// Throws std::runtime_error for a file in another format than tests/fixtures/golden.
std::vector<golden_prompt> read_golden(const std::filesystem::path& path);

/// Agreement with the reference, when each position is given the reference's own tokens.
struct agreement {
  std::uint32_t num_positions = 0;
  std::uint32_t num_clear = 0;           ///< positions whose margin exceeds 0.1
  std::uint32_t num_clear_same_best = 0; ///< those of them with the same most likely token
  double mean_difference = 0; ///< mean |difference| of the log-probability of the reference's best token

  double same_best_percent() const { return 100.0 * num_clear_same_best / num_clear; }
};

/// Runs a pass of a model and waits for it, on any device.
using pass_runner =
    std::function<void(const device::row_batch&, model::kv_storage&, const model::forward_outputs&)>;

agreement measure_agreement(const model::transformer& model, const pass_runner& forward,
                            const std::vector<golden_prompt>& prompts);
agreement measure_agreement(cpu_model& model, const std::vector<golden_prompt>& prompts);

} // namespace paceline::test
