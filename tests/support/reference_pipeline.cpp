#include "tests/support/reference_pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace paceline::test {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::size_t occurrences(std::span<const token_id> tokens, token_id token) {
  return static_cast<std::size_t>(std::count(tokens.begin(), tokens.end(), token));
}

/// Logits after bias, penalties and minimum length, in float as defined, because rounding affects ties.
std::vector<double> edited(std::span<const float> logits, const sampling_params& params,
                           const stop_params& stop, std::span<const token_id> context,
                           std::size_t prompt_length) {
  const auto output = context.subspan(prompt_length);
  std::vector<double> result;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const token_id token{static_cast<std::int32_t>(i)};
    float logit = logits[i];
    for (const auto& [biased, bias] : params.logit_bias)
      if (biased == token) logit += bias;
    if (occurrences(context, token) > 0) {
      if (logit > 0)
        logit /= params.repetition_penalty;
      else
        logit *= params.repetition_penalty;
    }
    if (const auto count = occurrences(output, token); count > 0)
      logit -= params.frequency_penalty * static_cast<float>(count) + params.presence_penalty;
    const bool stops =
        occurrences(stop.stop_ids, token) > 0 || (!stop.ignore_eos && occurrences(stop.eos_ids, token) > 0);
    if (output.size() < stop.min_tokens && stops) logit = -std::numeric_limits<float>::infinity();
    if (std::isnan(logit)) logit = -std::numeric_limits<float>::infinity();
    logit = std::min(logit, std::numeric_limits<float>::max());
    result.push_back(static_cast<double>(logit));
  }
  return result;
}

} // namespace

reference_row process(std::span<const float> logits, const sampling_params& params, const stop_params& stop,
                      std::span<const token_id> context, std::size_t prompt_length) {
  std::vector<double> values = edited(logits, params, stop, context, prompt_length);
  reference_row row{.probs = std::vector<double>(values.size(), 0.0)};
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  const double best = values.empty() ? -infinity : values[order[0]];
  if (best == -infinity) return row;
  if (params.temperature == 0.0F) {
    row.probs[order[0]] = 1;
    return row;
  }
  const auto close = [](double a, double b) {
    return std::abs(a - b) <= 1e-5 * std::max(std::abs(a), std::abs(b));
  };
  std::vector<double> weights;
  for (const double value : values)
    weights.push_back(std::exp((value - best) / static_cast<double>(params.temperature)));
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < order.size())
    order.resize(static_cast<std::size_t>(params.top_k));
  if (params.top_p < 1.0F) {
    double total = 0;
    for (const std::size_t i : order) total += weights[i];
    const double needed = static_cast<double>(params.top_p) * total;
    double sum = 0;
    std::size_t kept = 0;
    while (kept < order.size() && sum < needed) {
      sum += weights[order[kept++]];
      row.near_a_limit = row.near_a_limit || close(sum, needed);
    }
    order.resize(kept);
  }
  std::erase_if(order, [&](std::size_t i) {
    row.near_a_limit = row.near_a_limit || (params.min_p > 0 && params.min_p < 1 &&
                                            close(weights[i], static_cast<double>(params.min_p)));
    return weights[i] < static_cast<double>(params.min_p);
  });
  double total = 0;
  for (const std::size_t i : order) total += weights[i];
  for (const std::size_t i : order) row.probs[i] = weights[i] / total;
  return row;
}

double library_gumbel(std::uint64_t seed, std::uint32_t choice_index, noise_purpose purpose,
                      token_position position, token_id token) {
  const auto id = static_cast<std::uint32_t>(token.value);
  const auto words = [&](std::uint32_t index) {
    return philox4x32_10({position.value, choice_index, static_cast<std::uint32_t>(purpose), index},
                         {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  };
  const auto exponential = [](std::uint32_t word) {
    return -std::log((static_cast<double>(word) + 0.5) / 4294967296.0);
  };
  const auto cohort = words(0x80000000U + id / 64);
  double arrival = exponential(cohort[0]) / 64;
  if (id % 64 != cohort[1] % 64) arrival += exponential(words(id / 4)[id % 4]);
  return -std::log(arrival);
}

std::optional<token_id> sample(const reference_row& row, const sampling_params& params,
                               token_position position) {
  std::optional<token_id> best;
  double best_value = -infinity;
  for (std::size_t i = 0; i < row.probs.size(); ++i) {
    if (row.probs[i] == 0) continue;
    const token_id token{static_cast<std::int32_t>(i)};
    double value = std::log(row.probs[i]);
    if (params.temperature > 0)
      value += library_gumbel(params.seed, params.choice_index, noise_purpose::target, position, token);
    if (value > best_value) {
      best_value = value;
      best = token;
    }
  }
  return best;
}

} // namespace paceline::test
