#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/shared_list.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline {

class token_constraint;

/// How logits become a token. Plain decoding, drafting and verification use the same values. The defaults
/// leave the model's distribution unchanged; `validate` checks the ranges at the edge.
struct sampling_params {
  float temperature = 1.0F;        ///< [0, 2]; 0 = the most likely token, ties to the lowest id
  std::int32_t top_k = 0;          ///< keep the k most likely; 0 or -1 = all
  float top_p = 1.0F;              ///< (0, 1]; keep the smallest set whose probability reaches top_p
  float min_p = 0.0F;              ///< [0, 1]; drop tokens below min_p times the best one's probability
  float repetition_penalty = 1.0F; ///< > 0; applies to prompt and output
  float presence_penalty = 0.0F;   ///< [-2, 2]; applies to the output
  float frequency_penalty = 0.0F;  ///< [-2, 2]; applies to the output, times the count
  shared_list<std::pair<token_id, float>> logit_bias = {}; ///< added to raw logits; sorted by id
  std::uint64_t seed = 0;                                  ///< key of the request's Philox streams
  std::uint32_t choice_index = 0;                          ///< distinguishes the n choices of one request
  /// Nullopt: no log-probabilities; k: those of the chosen token and the k best.
  std::optional<std::uint32_t> num_logprobs = {};
  bool prompt_logprobs = false; ///< log-probabilities of the prompt's tokens too (`echo`)
};

/// When a request ends. Evaluated on committed tokens only.
struct stop_params {
  std::uint32_t max_tokens = 16;       ///< output tokens, at least 0 (0 only with prompt_logprobs)
  std::uint32_t min_tokens = 0;        ///< EOS and stop ids have probability 0 before this many output tokens
  std::vector<token_id> eos_ids = {};  ///< of the model; `engine::submit` fills an empty list and sorts it
  std::vector<token_id> stop_ids = {}; ///< of the request, which ends when one is committed; sorted
  std::vector<std::string> stop_strings = {}; ///< end the request; searched across token boundaries
  bool ignore_eos = false;                    ///< EOS is an ordinary token
  bool include_stop_string = false;           ///< the matched stop string is part of the text
};

/// Rule by which draft tokens are kept (docs/verification.md).
enum class verification_rule : std::uint8_t {
  coupled,
  rejection,
  block,
  lenient,
  typical,
  skip_sample_adjustment
};

/// Names of the rules in configuration, requests and replies, in the order of the enumerators.
inline constexpr std::array<std::string_view, 6> verification_rule_names{
    "coupled", "rejection", "block", "lenient", "typical", "skip_sample_adjustment"};
constexpr std::string_view name_of(verification_rule rule) noexcept {
  return verification_rule_names[static_cast<std::size_t>(rule)];
}

/// How close the output is to what the target alone would have given. Each value is weaker than the previous
/// one.
enum class guarantee : std::uint8_t {
  tokens,       ///< the same tokens, for the same seed
  distribution, ///< tokens of the same distribution; at temperature 0 the same tokens
  /// one of the above, except for rounding: the target's device is not strict (compute_device::is_strict)
  up_to_rounding,
  lossy, ///< an approximation
};
constexpr guarantee guarantee_of(verification_rule rule) noexcept {
  switch (rule) {
  case verification_rule::coupled:
    return guarantee::tokens;
  case verification_rule::rejection:
  case verification_rule::block:
    return guarantee::distribution;
  default:
    return guarantee::lossy;
  }
}
constexpr std::string_view name_of(guarantee kept) noexcept {
  constexpr std::array<std::string_view, 4> names{"tokens", "distribution", "up_to_rounding", "lossy"};
  return names[static_cast<std::size_t>(kept)];
}

/// How the draft length adapts to the outcome of earlier drafts (speculation/control/draft_length.hpp).
enum class length_rule : std::uint8_t { fixed, heuristic, entropy, optimal };
inline constexpr std::array<std::string_view, 4> length_rule_names{"fixed", "heuristic", "entropy",
                                                                   "optimal"};

/// What a draft worker does for a request while the request's last draft is verified
/// (runtime/rounds/foreseen_drafts.hpp).
enum class ahead_mode : std::uint8_t {
  off,      ///< waits for the verdict (accepted tokens and the token after them)
  ahead,    ///< drafts in advance for the outcome that the whole draft is accepted
  outcomes, ///< drafts in advance for several outcomes
};

/// How a request asks for drafting to overlap with verification (docs/overlap.md).
enum class overlap_request : std::uint8_t { off, groups, ahead, outcomes };
inline constexpr std::array<std::string_view, 4> overlap_request_names{"off", "groups", "ahead", "outcomes"};

/// What `asked` means for the request's own drafts. `groups` only affects how requests are grouped, so the
/// result is `off` for it.
constexpr ahead_mode ahead_mode_of(overlap_request asked) noexcept {
  return asked == overlap_request::ahead      ? ahead_mode::ahead
         : asked == overlap_request::outcomes ? ahead_mode::outcomes
                                              : ahead_mode::off;
}

/// Which drafter proposes, how many tokens, and by which rule they are verified.
struct speculation_params {
  std::string drafter = "default"; ///< a configured drafter's name, "none", or "default" (the model's)
  std::optional<std::uint32_t> draft_length = {};        ///< tokens per round; none = the drafter's default
  std::optional<paceline::length_rule> length_rule = {}; ///< none = the drafter's own
  std::optional<overlap_request> overlap = {};           ///< nullopt = the engine chooses
  verification_rule rule = verification_rule::coupled;
  /// (0, 1], rule `lenient`: a token's probability grows at most by the factor 1 / lenience.
  float lenience = 0.5F;
  float epsilon = 0.09F; ///< (0, 1], rule `typical`: draft tokens with at least this probability are accepted
  float delta = 0.3F;    ///< (0, 1], rule `typical`: probability delta * e^-entropy suffices as well
};

/// Beam search instead of sampling (docs/beam_search.md).
struct beam_params {
  std::uint32_t width = 0;    ///< hypotheses kept in each step; 0 = no beam search
  std::uint32_t num_best = 1; ///< hypotheses returned, 1 to width
  /// [-10, 10]; score = sum of log-probabilities / number of tokens ^ length_penalty.
  float length_penalty = 1.0F;
};

/// Why a request ended.
enum class finish_reason : std::uint8_t { none, stop, length, cancelled, error };

/// One generation with all defaults resolved. It does not change after `engine::submit`, so any thread may
/// read it.
struct generation_request {
  std::string model = {};            ///< configured name
  shared_list<token_id> prompt = {}; ///< at least one token
  sampling_params sampling = {};
  stop_params stop = {};
  speculation_params speculation = {};
  beam_params beams = {};
  /// What the output must match (runtime/base/token_constraint.hpp); null: anything. Not with a beam search.
  std::shared_ptr<const token_constraint> constraint = {};
  std::optional<token_id> first_target = {}; ///< forces the first output token
  std::string cache_salt = {};               ///< only requests with the same salt share cached prefixes
  std::string tenant = {};                   ///< drafters propose text only from requests of the same tenant
  /// Used for a fair order of waiting requests: at equal priority the k-th waiting request of each owner
  /// comes before the (k+1)-th of any other owner, whatever their tenants (docs/decisions/0548). The caller
  /// of `engine::submit` chooses the name, which is compared byte by byte; the server uses the name of the
  /// API key. All requests with an empty name have the same owner.
  std::string owner = {};
  shared_list<token_id> prediction = {}; ///< the output as the client expects it
  std::int32_t priority = 0;             ///< lower values run first
  bool skip_special_tokens = true;       ///< in the text; tokens are always reported
  bool trace = false;                    ///< report every round
  /// Every event has `timings` and `speculation` so far, for a client that may cancel the request and then
  /// needs these figures: the final event of a cancelled request has none.
  bool stats_in_events = false;
  std::chrono::milliseconds timeout{std::chrono::minutes(10)}; ///< from admission to the last token; finite
};

} // namespace paceline
