#pragma once

#include "runtime/base/request.hpp"
#include "runtime/base/token_event.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::wire {

class json_writer;

/// Token counts of one client request over all its choices. A prompt is counted once, not once for each
/// choice.
struct usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t accepted_draft_tokens = 0;
  std::uint32_t rejected_draft_tokens = 0;
  /// The weakest guarantee of the request's choices.
  paceline::guarantee guarantee = paceline::guarantee::tokens;
  bool has_prediction = false; ///< the client sent a prediction, so the counts of draft tokens are written
  std::uint32_t reasoning_tokens = 0; ///< those of `completion_tokens` that are thoughts
};

/// Adds the tokens of one finished choice. Set `count_prompt` for the first choice of each prompt.
void add(usage& total, const token_event& last, std::uint32_t prompt_tokens, std::uint32_t completion_tokens,
         bool count_prompt);

/// Times of one choice and the effect of speculation on it. They are written only for requests with a single
/// choice.
struct generation_metrics {
  request_timings timings;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::optional<speculation_stats> speculation;
};

/// Writes "usage" in the form of /v1/completions and /v1/chat/completions.
void write_usage(json_writer& out, const usage& used);
/// Writes "usage" in the form of /v1/responses.
void write_response_usage(json_writer& out, const usage& used);
/// Writes "metrics": times in milliseconds, vLLM's "speculative_decoding" if a draft token was verified, and
/// "explanation" if `explain` (explanation.hpp) returns one.
void write_metrics(json_writer& out, const generation_metrics& metrics);
/// Writes "timings" in llama-server's form.
void write_timings(json_writer& out, const generation_metrics& metrics);

/// One token with its log-probability. `bytes` need not be whole characters.
struct token_score {
  std::string bytes;
  std::optional<float> logprob;                   ///< nullopt for the first token of a prompt
  std::vector<std::pair<std::string, float>> top; ///< best first
};

/// Writes the "logprobs" of completions as OpenAI's legacy arrays. The first "text_offset" is `first_offset`,
/// in characters.
void write_legacy_logprobs(json_writer& out, const std::vector<token_score>& scores,
                           std::size_t first_offset);
/// One element of the legacy "top_logprobs".
void write_legacy_top(json_writer& out, const token_score& score);
/// Writes {"token","logprob","bytes","top_logprobs"}, or an array of such objects, for chat and responses.
void write_token_score(json_writer& out, const token_score& score);
void write_token_scores(json_writer& out, const std::vector<token_score>& scores);

/// Returns the bytes of a token, which need not be whole characters.
using token_speller = std::function<std::string(token_id)>;

/// One round as a client sees it: its trace, and each of its tokens decoded alone (`printable_token`).
struct told_round {
  round_trace trace;
  std::vector<std::string> draft_texts; ///< of `trace.draft_tokens`
  std::vector<std::string> token_texts; ///< of `trace.tokens`
};
told_round tell_round(round_trace trace, const token_speller& spell);
/// Writes the fields that docs/protocol.md lists below `paceline.trace`.
void write_round(json_writer& out, const told_round& round);

/// Writes an array of token ids.
void write_tokens(json_writer& out, const std::vector<token_id>& tokens);

/// "stop", "length", "abort" (cancelled) or "error"; empty for none.
std::string_view to_string(finish_reason reason) noexcept;

/// `bytes` if they are whole characters, else OpenAI's spelling for parts of a character, "bytes:\xe2\x80".
std::string printable_token(const std::string& bytes);

} // namespace paceline::wire
