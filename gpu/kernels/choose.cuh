#pragma once

#include "gpu/kernels/choice_params.hpp"
#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/reduce_warp.cuh"
#include "gpu/kernels/top_scores.cuh"

#include <limits>

// Chooses tokens from logits, as defined in runtime/device/op_choose.hpp: edit_logits if there are edits,
// chunk_maxima, choose_rows, and walk_drafts.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

// ---- edits

PACELINE_DEVICE float penalised(const choice_request& request, float logit, std::uint32_t num_output) {
  logit = logit > 0 ? logit / request.repetition_penalty : logit * request.repetition_penalty;
  if (num_output > 0)
    logit = logit - (request.frequency_penalty * static_cast<float>(num_output) + request.presence_penalty);
  return logit;
}

PACELINE_DEVICE bool is_token(token_id token, std::uint32_t vocab_size) {
  return token.value >= 0 && static_cast<std::uint32_t>(token.value) < vocab_size;
}

/// Number of occurrences of `token` in a path.
PACELINE_DEVICE std::uint32_t count_in(const token_id* path, std::uint32_t length, token_id token) {
  std::uint32_t num = 0;
  for (std::uint32_t i = 0; i < length; ++i) num += path[i] == token ? 1 : 0;
  return num;
}

/// Each token is handled by one thread: first those in the committed text, then the others of the path.
PACELINE_DEVICE void penalise(const choice_request& request, const choice_view& view, choice_span path_of,
                              float* logits, std::uint32_t vocab_size, edit_memory& shared) {
  const token_id* const path = view.paths + path_of.begin;
  for (std::uint32_t i = thread_index(); i < path_of.size; i += num_threads()) shared.is_counted[i] = false;
  sync_block();
  for (std::uint32_t i = thread_index(); i < request.counts.size; i += num_threads()) {
    const device::penalised_token counted = view.counts[request.counts.begin + i];
    for (std::uint32_t k = 0; k < path_of.size; ++k)
      if (path[k] == counted.token) shared.is_counted[k] = true;
    if (!is_token(counted.token, vocab_size)) continue;
    float& logit = logits[counted.token.value];
    logit = penalised(request, logit, counted.num_output + count_in(path, path_of.size, counted.token));
  }
  sync_block();
  for (std::uint32_t k = thread_index(); k < path_of.size; k += num_threads()) {
    if (shared.is_counted[k] || !is_token(path[k], vocab_size) || count_in(path, k, path[k]) > 0) continue;
    float& logit = logits[path[k].value];
    logit = penalised(request, logit, count_in(path, path_of.size, path[k]));
  }
}

PACELINE_DEVICE void do_block(const edit_logits_params& p, grid_place block) {
  const choice_row row = p.view.rows[block.y];
  const choice_request request = p.view.requests[row.request];
  float* const logits = p.logits + std::size_t{block.y} * p.vocab_size;
  for (std::uint32_t i = thread_index(); i < request.biases.size; i += num_threads()) {
    const biased_token biased = p.view.biases[request.biases.begin + i];
    if (is_token(biased.token, p.vocab_size))
      logits[biased.token.value] = logits[biased.token.value] + biased.bias;
  }
  sync_block();
  if (request.penalises)
    penalise(request, p.view, row.path, logits, p.vocab_size, *shared_memory<edit_memory>());
  sync_block();
  if (row.level >= request.num_removing) return;
  for (std::uint32_t i = thread_index(); i < request.removed.size; i += num_threads())
    if (const token_id token = p.view.removed[request.removed.begin + i]; is_token(token, p.vocab_size))
      logits[token.value] = -std::numeric_limits<float>::infinity();
}
PACELINE_KERNEL edit_logits(edit_logits_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

// ---- choices

PACELINE_DEVICE void do_block(const chunk_maxima_params& p, grid_place block) {
  const std::uint32_t num_chunks = (p.vocab_size + choice_chunk - 1) / choice_chunk;
  const std::uint32_t chunk = block.x * maxima_warps + warp_index();
  if (chunk >= num_chunks) return; // the whole warp returns
  const float* const logits = p.logits + std::size_t{block.y} * p.vocab_size;
  float largest = -std::numeric_limits<float>::infinity();
  for (std::uint32_t i = lane_index(); i < choice_chunk; i += warp_size) {
    const std::uint32_t token = chunk * choice_chunk + i;
    if (token < p.vocab_size && logits[token] > largest) largest = logits[token]; // false for NaN
  }
  largest =
      reduce_warp<warp_size / 2>(largest, [](float own, float other) { return other > own ? other : own; });
  if (lane_index() == 0) p.maxima[std::size_t{block.y} * num_chunks + chunk] = largest;
}
PACELINE_KERNEL chunk_maxima(chunk_maxima_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

/// A row and the tokens among which it chooses.
struct choosing_row {
  const float* logits;
  const float* maxima;
  std::uint32_t vocab_size;
  std::uint32_t num_chunks;
  noise_stream noise;
  float shift;
  float temperature;
  float min_score;

  PACELINE_DEVICE static float ordered(float logit) {
    constexpr float highest = std::numeric_limits<float>::max();
    const float bounded = logit < highest ? logit : highest;
    return logit == logit ? bounded : -std::numeric_limits<float>::infinity();
  }
  PACELINE_DEVICE float score(float logit) const { return (ordered(logit) - shift) / temperature; }
};

/// Returns the largest logit of a row, and sets `token` to the lowest token with this logit; the same in all
/// threads. -infinity and token 0 for a row without a finite logit.
PACELINE_DEVICE float find_largest(const choosing_row& row, choice_memory& shared, std::uint32_t& token) {
  float max = -std::numeric_limits<float>::infinity();
  std::uint32_t chunk = 0;
  for (std::uint32_t c = thread_index(); c < row.num_chunks; c += choice_threads)
    if (row.maxima[c] > max) max = row.maxima[c], chunk = c;
  shared.max[thread_index()] = max;
  shared.place[thread_index()] = chunk;
  sync_block();
  for (std::uint32_t t = 0; t < choice_threads; ++t) {
    const float other = shared.max[t];
    if (other > max || (other == max && shared.place[t] < chunk)) max = other, chunk = shared.place[t];
  }
  sync_block(); // the memory is reused
  token = 0;
  if (!(max > -std::numeric_limits<float>::infinity())) return max;
  token = chunk * choice_chunk;
  while (row.logits[token] != max) ++token;
  return max;
}

/// Upper bound of the noise of any token: the smallest arrival in a cohort is about 2^-39, and -ln of that is
/// 27.03 (runtime/base/philox.hpp).
inline constexpr double noise_bound = 27.1;

/// A token and its value: the best that a thread has found.
struct leading_token {
  double value;
  std::uint32_t token;

  PACELINE_DEVICE void compare(double other, std::uint32_t its_token) {
    if (other > value || (other == value && its_token < token)) value = other, token = its_token;
  }
};

/// Compares the tokens of chunk `c` with the best one so far, except tokens whose score plus the chunk's
/// largest noise is below the best value.
PACELINE_DEVICE void race_chunk(const choosing_row& row, std::uint32_t c, leading_token& lead) {
  const float maximum = row.score(row.maxima[c]);
  if (!(maximum >= row.min_score) || !(static_cast<double>(maximum) + noise_bound >= lead.value)) return;
  const noise_cohort cohort(row.noise, c);
  const double largest = cohort.largest_gumbel();
  if (!(static_cast<double>(maximum) + largest >= lead.value)) return;
  for (std::uint32_t i = 0; i < choice_chunk; ++i) {
    const std::uint32_t token = c * choice_chunk + i;
    if (token >= row.vocab_size) return;
    const float score = row.score(row.logits[token]);
    if (!(score >= row.min_score) || !(static_cast<double>(score) + largest >= lead.value)) continue;
    const philox_counter words = row.noise.words(token / 4);
    lead.compare(static_cast<double>(score) + cohort.gumbel(i, words[token % 4]), token);
  }
}

/// Score plus noise.
PACELINE_DEVICE double value_of(const choosing_row& row, float score, std::uint32_t token) {
  const noise_cohort cohort(row.noise, token / choice_chunk);
  const philox_counter words = row.noise.words(token / 4);
  return static_cast<double>(score) + cohort.gumbel(token % choice_chunk, words[token % 4]);
}

/// The best of the threads' candidates.
PACELINE_DEVICE std::uint32_t winner_of(leading_token lead, choice_memory& shared) {
  shared.value[thread_index()] = lead.value;
  shared.place[thread_index()] = lead.token;
  sync_block();
  for (std::uint32_t t = 0; t < choice_threads; ++t) lead.compare(shared.value[t], shared.place[t]);
  return lead.token;
}

/// Chooses the token of a row with a finite logit.
PACELINE_DEVICE std::uint32_t race(const choosing_row& row, std::uint32_t likeliest, choice_memory& shared) {
  // The value of the likeliest token is a bound that most chunks cannot reach.
  leading_token lead{value_of(row, row.score(row.logits[likeliest]), likeliest), likeliest};
  for (std::uint32_t c = thread_index(); c < row.num_chunks; c += choice_threads) race_chunk(row, c, lead);
  return winner_of(lead, shared);
}

/// Finds the `count` likeliest tokens of a row, in order, and returns their number. They lie in the `count`
/// likeliest chunks. (A chunk is as likely as its likeliest token; of equal chunks the lower one comes
/// first.) A token elsewhere is preceded by at least `count` tokens, one in each of these chunks. So at most
/// `count` chunks are read, even if there are ties.
PACELINE_DEVICE std::uint32_t find_top(const choosing_row& row, std::uint32_t count, choice_memory& shared) {
  constexpr float lowest = std::numeric_limits<float>::lowest();
  const auto chunk_at = [&](std::uint32_t c) { return scored{row.score(row.maxima[c]), c}; };
  const std::uint32_t num_chunks = find_best(count, row.num_chunks, lowest, chunk_at, shared.top);
  const float bound = num_chunks == count ? shared.top.best[count - 1].score : lowest;
  shared.place[thread_index()] = shared.top.best[thread_index()].index;
  sync_block();
  const auto token_at = [&](std::uint32_t i) {
    const std::uint32_t token = shared.place[i / choice_chunk] * choice_chunk + i % choice_chunk;
    return token < row.vocab_size ? scored{row.score(row.logits[token]), token} : no_score();
  };
  return find_best(count, num_chunks * choice_chunk, bound, token_at, shared.top);
}

/// The smallest k such that the k likeliest tokens have at least the share top_p of the total weight of the
/// `num_tokens` likeliest.
PACELINE_DEVICE std::uint32_t leading_run(std::uint32_t num_tokens, float top_p, choice_memory& shared) {
  shared.value[thread_index()] = static_cast<double>(portable_exp(shared.top.best[thread_index()].score));
  sync_block();
  double total = 0; // computed by each thread: the order of the terms is part of the result
  for (std::uint32_t t = 0; t < num_tokens; ++t) total = total + shared.value[t];
  const double needed = static_cast<double>(top_p) * total;
  double sum = 0;
  std::uint32_t num_kept = 0;
  for (; num_kept < num_tokens && sum < needed; ++num_kept) sum = sum + shared.value[num_kept];
  sync_block(); // the memory is reused
  return num_kept;
}

/// Chooses the token of a row with a finite logit and top-k: each thread has one of the remaining tokens.
PACELINE_DEVICE std::uint32_t race_of_top(const choosing_row& row, const choice_request& request,
                                          choice_memory& shared) {
  std::uint32_t num_kept = find_top(row, request.top_k, shared);
  if (request.top_p < 1) num_kept = leading_run(num_kept, request.top_p, shared);
  const scored own = shared.top.best[thread_index()];
  leading_token lead{std::numeric_limits<double>::lowest(), own.index};
  if (thread_index() < num_kept && own.score >= row.min_score)
    lead.value = value_of(row, own.score, own.index);
  return winner_of(lead, shared);
}

PACELINE_DEVICE void do_block(const choose_rows_params& p, grid_place block) {
  choice_memory& shared = *shared_memory<choice_memory>();
  const choice_row place = p.view.rows[block.y];
  const choice_request request = p.view.requests[place.request];
  choosing_row row{};
  row.vocab_size = p.vocab_size;
  row.num_chunks = (p.vocab_size + choice_chunk - 1) / choice_chunk;
  row.logits = p.logits + std::size_t{block.y} * p.vocab_size;
  row.maxima = p.maxima + std::size_t{block.y} * row.num_chunks;
  row.temperature = request.temperature;
  row.min_score = request.min_score;
  row.noise.seed = request.seed;
  row.noise.choice_index = request.choice_index;
  row.noise.position = token_position{request.position.value + place.level};
  row.noise.purpose = noise_purpose::target;
  std::uint32_t token = 0;
  const float max = find_largest(row, shared, token);
  const bool hopeless = !(max > -std::numeric_limits<float>::infinity());
  row.shift = choosing_row::ordered(max);
  if (request.temperature != 0 && !hopeless)
    token = request.top_k > 0 ? race_of_top(row, request, shared) : race(row, token, shared);
  if (thread_index() == 0) p.choices[block.y] = {token_id{static_cast<std::int32_t>(token)}, hopeless};
}
PACELINE_KERNEL choose_rows(choose_rows_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

// ---- acceptance

PACELINE_DEVICE bool is_leaf(const std::int32_t* parents, std::uint32_t num_nodes, std::int32_t place) {
  for (std::uint32_t n = 0; n < num_nodes; ++n)
    if (parents[n] == place) return false;
  return true;
}

PACELINE_KERNEL walk_drafts(walk_drafts_params p) {
  begin_in_turn();
  if (own_place().index_in_row() >= p.num_requests) return;
  const choice_request request = p.view.requests[own_place().index_in_row()];
  const token_id* const tokens = p.view.draft_tokens + request.nodes.begin;
  const std::int32_t* const parents = p.view.parents + request.nodes.begin;
  std::int32_t places[device::max_draft_nodes]; // the accepted nodes: several if siblings have equal tokens
  std::int32_t matches[device::max_draft_nodes];
  std::uint32_t num_places = 1;
  places[0] = -1;
  row_choice chosen{};
  for (;;) {
    chosen = p.choices[request.first_row + static_cast<std::uint32_t>(places[0] + 1)];
    std::uint32_t num_matches = 0;
    for (std::uint32_t i = 0; i < num_places && !chosen.hopeless; ++i)
      for (std::uint32_t n = 0; n < request.nodes.size; ++n)
        if (parents[n] == places[i] && tokens[n] == chosen.token)
          matches[num_matches++] = static_cast<std::int32_t>(n);
    if (num_matches == 0) break;
    num_places = num_matches;
    for (std::uint32_t i = 0; i < num_places; ++i) places[i] = matches[i];
  }
  bool bonus = true;
  for (std::uint32_t i = 0; i < num_places; ++i)
    bonus = bonus && is_leaf(parents, request.nodes.size, places[i]);
  p.out[own_place().index_in_row()] = {places[0], chosen.token, bonus, chosen.hopeless};
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
