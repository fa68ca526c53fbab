#pragma once

#include "runtime/base/philox.hpp"
#include "runtime/device/op_choose.hpp"

#include <cstdint>

namespace paceline::gpu {

// Parameters of the kernels of op `choose`. They have the data of device::choose_args and
// device::token_choice (runtime/device/op_choose.hpp documents the fields). The lists of all requests are
// joined into one array for each kind of list, and a request has ranges of these arrays (`choice_span`)
// instead of spans.

/// Number of consecutive tokens in a chunk. A chunk is a cohort of `noise_stream`: one random word gives an
/// upper bound of the noise of all its tokens. A chunk is skipped if its largest score plus this bound is
/// below the score plus noise of the best token found so far.
inline constexpr std::uint32_t choice_chunk = noise_stream::cohort_size;

/// A token with an amount added to its logit.
struct biased_token {
  token_id token;
  float bias = 0;
};

/// A part of one of the arrays in `choice_view`.
struct choice_span {
  std::uint32_t begin = 0;
  std::uint32_t size = 0;
};

struct choice_request {
  std::uint64_t seed = 0;
  std::uint32_t choice_index = 0;
  token_position position; ///< position of the token that the first row chooses
  std::uint32_t first_row = 0;
  std::uint32_t num_removing = 0;
  choice_span nodes, biases, counts, removed;
  float temperature = 1;
  std::uint32_t top_k = 0;
  float top_p = 1;
  float min_score = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  bool penalises = false;
};

struct choice_row {
  std::uint32_t request = 0;
  std::uint32_t level = 0;
  /// Draft tokens from the root's child down to the row's node, for requests with penalties.
  choice_span path;
};

/// All requests of a call.
struct choice_view {
  const choice_request* requests;
  const choice_row* rows;
  const token_id* draft_tokens;
  const std::int32_t* parents;
  const biased_token* biases;
  const device::penalised_token* counts;
  const token_id* removed;
  const token_id* paths;
};

/// The token chosen for a row.
struct row_choice {
  token_id token;
  bool hopeless = false; ///< the row has no finite logit
};

/// Threads of a block of edit_logits and choose_rows.
inline constexpr std::uint32_t choice_threads = 128;

/// In shared memory: which tokens of a row's path also occur in the committed text.
struct edit_memory {
  bool is_counted[device::max_draft_nodes];
};

/// One block for each row; grid (1, rows).
struct edit_logits_params {
  choice_view view;
  float* logits;
  std::uint32_t vocab_size;
};

/// Warps of a block of chunk_maxima.
inline constexpr std::uint32_t maxima_warps = 4;

/// One warp for each chunk; grid (chunks / maxima_warps, rows).
struct chunk_maxima_params {
  const float* logits;
  float* maxima; ///< [rows][chunks]
  std::uint32_t vocab_size;
};

/// A score, and the index of a token or of a chunk (whose score is that of its likeliest token).
struct scored {
  float score;
  std::uint32_t index;
};

/// In shared memory: state of a search for the best scores. Each entry belongs to a thread.
struct best_memory {
  scored best[choice_threads]; ///< the best ones so far, best first
  scored offered[choice_threads];
};
static_assert(device::max_top_k <= choice_threads);

/// In shared memory: data of the threads of choose_rows.
struct choice_memory {
  best_memory top; ///< for rows with top-k
  double value[choice_threads];
  float max[choice_threads];
  std::uint32_t place[choice_threads]; ///< index of a chunk, later of a token
};

/// One block for each row; grid (1, rows).
struct choose_rows_params {
  choice_view view;
  const float* logits;
  const float* maxima;
  row_choice* choices;
  std::uint32_t vocab_size;
};

/// One thread for each request.
struct walk_drafts_params {
  choice_view view;
  const row_choice* choices;
  device::chosen_run* out;
  std::uint32_t num_requests;
};

} // namespace paceline::gpu
