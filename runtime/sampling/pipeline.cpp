#include "runtime/sampling/pipeline.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"
#include "runtime/sampling/minus_infinity.hpp"
#include "runtime/sampling/row_kernels.hpp"
#include "runtime/sampling/token_mask.hpp"

#include <algorithm>

namespace paceline::sampling {

namespace {

std::size_t index_of(token_id token) noexcept { return static_cast<std::size_t>(token.value); }

bool within(std::span<const float> row, token_id token) noexcept {
  return token.value >= 0 && index_of(token) < row.size();
}

choice likeliest(std::span<const float> logits) {
  const std::size_t best = argmax(logits);
  const bool hopeless = logits.empty() || !(logits[best] > minus_infinity);
  return {.token = token_id{static_cast<std::int32_t>(best)}, .hopeless = hopeless};
}

std::vector<candidate>& survivors_of_this_thread() {
  thread_local std::vector<candidate> survivors;
  return survivors;
}

} // namespace

pipeline::pipeline(const sampling_params& params, const stop_params& stop)
    : params_(params), truncation_{.top_k = params.top_k > 0 ? static_cast<std::size_t>(params.top_k) : 0,
                                   .top_p = params.top_p,
                                   .min_p = params.min_p},
      penalties_(params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
                 params.frequency_penalty != 0.0F),
      min_tokens_(stop.min_tokens) {
  stop_like_ids_ = stop.stop_ids;
  if (!stop.ignore_eos) stop_like_ids_.insert(stop_like_ids_.end(), stop.eos_ids.begin(), stop.eos_ids.end());
}

float pipeline::penalised(float logit, std::uint32_t num_output) const noexcept {
  logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
  if (num_output > 0)
    logit -= params_.frequency_penalty * static_cast<float>(num_output) + params_.presence_penalty;
  return logit;
}

void pipeline::penalise(std::span<float> logits, const row_context& row) const {
  // Tokens of the draft path count as output. Their logits are saved, because the committed counts are
  // applied first.
  thread_local std::vector<candidate> path;
  path.clear();
  for (const token_id token : row.draft_path) {
    const bool seen =
        std::any_of(path.begin(), path.end(), [&](const candidate& other) { return other.token == token; });
    if (!seen && within(logits, token)) path.push_back({logits[index_of(token)], token});
  }
  if (row.committed != nullptr)
    for (const token_counts::entry& entry : row.committed->entries())
      if (within(logits, entry.token))
        logits[index_of(entry.token)] = penalised(logits[index_of(entry.token)], entry.output);
  for (const candidate& token : path) {
    const auto in_path = std::count(row.draft_path.begin(), row.draft_path.end(), token.token);
    const std::uint32_t before = row.committed == nullptr ? 0 : row.committed->in_output(token.token);
    logits[index_of(token.token)] = penalised(token.score, before + static_cast<std::uint32_t>(in_path));
  }
}

void pipeline::edit(std::span<float> logits, const row_context& row) const {
  for (const auto& [token, bias] : params_.logit_bias)
    if (within(logits, token)) logits[index_of(token)] += bias;
  if (penalties_) penalise(logits, row);
  if (row.output_index < min_tokens_)
    for (const token_id token : stop_like_ids_)
      if (within(logits, token)) logits[index_of(token)] = minus_infinity;
  if (row.constraint != nullptr) apply_mask(row.constraint->allowed(row.output, row.draft_path), logits);
}

bool pipeline::process(std::span<float> logits, const row_context& row) const {
  edit(logits, row);
  if (greedy()) {
    const choice best = likeliest(logits);
    std::fill(logits.begin(), logits.end(), minus_infinity);
    if (!best.hopeless) logits[index_of(best.token)] = 0;
    return !best.hopeless;
  }
  const std::span<const float> maxima = chunk_maxima(logits);
  const row_scale scale = scale_of(maxima, params_.temperature);
  if (scale.shift == minus_infinity) {
    std::fill(logits.begin(), logits.end(), minus_infinity);
    return false;
  }
  if (!truncation_.active(logits.size())) {
    apply_scale(scale, logits);
    return true;
  }
  auto& survivors = survivors_of_this_thread();
  truncate(logits, maxima, scale, truncation_, survivors);
  std::fill(logits.begin(), logits.end(), minus_infinity);
  for (const candidate& token : survivors) logits[index_of(token.token)] = token.score;
  return true;
}

bool pipeline::rank(std::span<float> logits, const row_context& row) const {
  edit(logits, row);
  const row_scale scale = scale_of(chunk_maxima(logits), 1.0F);
  if (scale.shift == minus_infinity) return false;
  apply_scale(scale, logits);
  return true;
}

token_id pipeline::sample(std::span<const float> scores, token_position position) const {
  if (greedy()) return likeliest(scores).token;
  return gumbel_argmax(scores, noise(noise_purpose::target, position));
}

choice pipeline::choose(std::span<float> logits, const row_context& row) const {
  edit(logits, row);
  if (greedy()) return likeliest(logits);
  const std::span<const float> maxima = chunk_maxima(logits);
  const row_scale scale = scale_of(maxima, params_.temperature);
  if (scale.shift == minus_infinity) return {.token = token_id{0}, .hopeless = true};
  const noise_stream stream = noise(noise_purpose::target, row.position);
  if (!truncation_.active(logits.size())) return {.token = gumbel_argmax(logits, maxima, scale, stream)};
  auto& survivors = survivors_of_this_thread();
  truncate(logits, maxima, scale, truncation_, survivors);
  return {.token = gumbel_argmax(survivors, stream)};
}

row_scale pipeline::scale_of(std::span<const float> maxima, float temperature) const noexcept {
  const auto best = std::max_element(maxima.begin(), maxima.end());
  return {.shift = best == maxima.end() ? minus_infinity : row_scale::ordered(*best), .divisor = temperature};
}

double total_weight(std::span<const float> scores) { return sum_of_exp(scores, {}); }

raw_logprobs log_softmax_of(std::span<const float> raw_logits, token_id token, std::uint32_t num_top) {
  PACELINE_CHECK(within(raw_logits, token), "token " + to_string(token) + " outside the vocabulary");
  raw_logprobs result;
  const choice best = likeliest(raw_logits);
  const float shift = best.hopeless ? 0.0F : row_scale::ordered(raw_logits[index_of(best.token)]);
  const double log_total =
      best.hopeless ? 0.0
                    : static_cast<double>(shift) + portable_log(sum_of_exp(raw_logits, {.shift = shift}));
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(row_scale::ordered(logit)) - log_total);
  };
  result.chosen = logprob(raw_logits[index_of(token)]);
  if (num_top > 0) {
    auto& best_tokens = survivors_of_this_thread();
    select_top(raw_logits, num_top, best_tokens);
    for (const candidate& entry : best_tokens) result.top.emplace_back(entry.token, logprob(entry.score));
  }
  return result;
}

} // namespace paceline::sampling
