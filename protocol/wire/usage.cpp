#include "protocol/wire/usage.hpp"

#include "protocol/wire/explanation.hpp"
#include "protocol/wire/json_writer.hpp"
#include "runtime/base/utf8.hpp"

#include <algorithm>
#include <unordered_set>

namespace paceline::wire {

namespace {

double milliseconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// Tokens per second of decoding, without the first token, which belongs to the prefill.
double decode_rate(const generation_metrics& metrics) {
  const auto tokens = metrics.completion_tokens > 1 ? metrics.completion_tokens - 1 : 0;
  return ratio(tokens * 1000.0, milliseconds(metrics.timings.decode));
}

double mean_gap_ms(const generation_metrics& metrics) {
  return metrics.completion_tokens > 1
             ? milliseconds(metrics.timings.decode) / (metrics.completion_tokens - 1)
             : 0;
}

/// Writes the guarantee, unless the tokens are those of plain decoding.
void write_guarantee(json_writer& out, const usage& used) {
  if (used.guarantee != guarantee::tokens) out.field("guarantee", name_of(used.guarantee));
}

/// OpenAI defines these fields for Predicted Outputs only. Drafting without a prediction is reported in
/// "metrics".
void write_predicted(json_writer& out, const usage& used) {
  if (!used.has_prediction) return;
  out.field("accepted_prediction_tokens", used.accepted_draft_tokens);
  out.field("rejected_prediction_tokens", used.rejected_draft_tokens);
}

void write_speculation(json_writer& out, const speculation_stats& stats) {
  const auto num_spec_tokens = stats.acceptance_histogram.empty() ? 0 : stats.acceptance_histogram.size() - 1;
  out.begin_object();
  out.field("mean_acceptance_length", 1.0 + ratio(stats.num_accepted_tokens, stats.num_rounds));
  out.field("draft_acceptance_rate", ratio(stats.num_accepted_tokens, stats.num_draft_tokens));
  out.key("acceptance_histogram").begin_array();
  for (const auto count : stats.acceptance_histogram) out.value(count);
  out.end_array();
  out.field("num_spec_steps", stats.num_rounds);
  out.field("num_accepted_draft_tokens", stats.num_accepted_tokens);
  out.field("num_draft_tokens", stats.num_draft_tokens);
  out.field("num_spec_tokens", num_spec_tokens).field("num_full_spec_steps", stats.num_full_rounds);
  out.field("guarantee", name_of(stats.guarantee));
  out.end_object();
}

} // namespace

void add(usage& total, const token_event& last, std::uint32_t prompt_tokens, std::uint32_t completion_tokens,
         bool count_prompt) {
  total.completion_tokens += completion_tokens;
  if (count_prompt) {
    total.prompt_tokens += prompt_tokens;
    if (last.timings) total.cached_tokens += last.timings->num_cached_tokens;
  }
  if (last.speculation) {
    const auto& stats = *last.speculation;
    total.accepted_draft_tokens += stats.num_accepted_tokens;
    total.rejected_draft_tokens +=
        stats.num_draft_tokens - std::min(stats.num_draft_tokens, stats.num_accepted_tokens);
    total.guarantee = std::max(total.guarantee, stats.guarantee);
  }
}

void write_usage(json_writer& out, const usage& used) {
  out.begin_object();
  out.field("prompt_tokens", used.prompt_tokens).field("completion_tokens", used.completion_tokens);
  out.field("total_tokens", std::uint64_t{used.prompt_tokens} + used.completion_tokens);
  out.key("prompt_tokens_details").begin_object().field("cached_tokens", used.cached_tokens).end_object();
  out.key("completion_tokens_details").begin_object().field("reasoning_tokens", used.reasoning_tokens);
  write_predicted(out, used);
  write_guarantee(out, used);
  out.end_object();
  out.end_object();
}

void write_response_usage(json_writer& out, const usage& used) {
  out.begin_object().field("input_tokens", used.prompt_tokens);
  out.key("input_tokens_details").begin_object().field("cached_tokens", used.cached_tokens);
  out.field("cache_write_tokens", 0U).end_object(); // writing to the prefix cache costs nothing
  out.field("output_tokens", used.completion_tokens);
  out.key("output_tokens_details").begin_object().field("reasoning_tokens", used.reasoning_tokens);
  write_predicted(out, used);
  write_guarantee(out, used);
  out.end_object();
  out.field("total_tokens", std::uint64_t{used.prompt_tokens} + used.completion_tokens).end_object();
}

void write_metrics(json_writer& out, const generation_metrics& metrics) {
  const auto& timings = metrics.timings;
  out.begin_object();
  out.field("time_to_first_token_ms", milliseconds(timings.queued + timings.prefill));
  out.field("queue_time_ms", milliseconds(timings.queued));
  out.field("generation_time_ms", milliseconds(timings.decode));
  out.field("mean_itl_ms", mean_gap_ms(metrics));
  out.field("tokens_per_second", decode_rate(metrics));
  if (metrics.speculation && metrics.speculation->num_rounds > 0) {
    out.key("speculative_decoding");
    write_speculation(out, *metrics.speculation);
  }
  if (metrics.speculation)
    if (const auto why = explain(*metrics.speculation); !why.empty()) out.field("explanation", why);
  out.end_object();
}

void write_timings(json_writer& out, const generation_metrics& metrics) {
  const auto& timings = metrics.timings;
  const auto computed = metrics.prompt_tokens - std::min(metrics.prompt_tokens, timings.num_cached_tokens);
  out.begin_object();
  out.field("prompt_n", computed).field("prompt_ms", milliseconds(timings.prefill));
  out.field("prompt_per_second", ratio(computed * 1000.0, milliseconds(timings.prefill)));
  out.field("predicted_n", metrics.completion_tokens).field("predicted_ms", milliseconds(timings.decode));
  out.field("predicted_per_second", decode_rate(metrics));
  out.field("cache_n", timings.num_cached_tokens);
  if (metrics.speculation && metrics.speculation->num_draft_tokens > 0) {
    out.field("draft_n", metrics.speculation->num_draft_tokens);
    out.field("draft_n_accepted", metrics.speculation->num_accepted_tokens);
  }
  out.end_object();
}

std::string printable_token(const std::string& bytes) {
  if (is_well_formed_utf8(bytes)) return bytes;
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += {'\\', 'x', hex[byte >> 4U], hex[byte & 15U]};
  }
  return out;
}

void write_legacy_top(json_writer& out, const token_score& score) {
  if (!score.logprob) {
    out.null();
    return;
  }
  // As with OpenAI, the chosen token is always included. If it is not among the best, there is one entry
  // more.
  std::unordered_set<std::string> seen;
  out.begin_object();
  const auto entry = [&](const std::string& bytes, float logprob) {
    auto name = printable_token(bytes);
    if (seen.insert(name).second) out.field(name, logprob);
  };
  for (const auto& [bytes, logprob] : score.top) entry(bytes, logprob);
  entry(score.bytes, *score.logprob);
  out.end_object();
}

void write_legacy_logprobs(json_writer& out, const std::vector<token_score>& scores,
                           std::size_t first_offset) {
  out.begin_object().key("tokens").begin_array();
  for (const auto& score : scores) out.value(printable_token(score.bytes));
  out.end_array().key("token_logprobs").begin_array();
  for (const auto& score : scores) score.logprob ? out.value(*score.logprob) : out.null();
  out.end_array().key("top_logprobs").begin_array();
  for (const auto& score : scores) write_legacy_top(out, score);
  out.end_array().key("text_offset").begin_array();
  auto offset = first_offset;
  for (const auto& score : scores) {
    out.value(offset);
    offset += count_code_points(score.bytes);
  }
  out.end_array().end_object();
}

void write_token_score(json_writer& out, const token_score& score) {
  const auto write_token = [&](const std::string& bytes, float logprob) {
    out.field("token", printable_token(bytes)).field("logprob", logprob).key("bytes").begin_array();
    for (const char c : bytes) out.value(static_cast<unsigned>(static_cast<unsigned char>(c)));
    out.end_array();
  };
  out.begin_object();
  write_token(score.bytes, score.logprob.value_or(0));
  out.key("top_logprobs").begin_array();
  for (const auto& [bytes, logprob] : score.top) {
    out.begin_object();
    write_token(bytes, logprob);
    out.end_object();
  }
  out.end_array().end_object();
}

void write_token_scores(json_writer& out, const std::vector<token_score>& scores) {
  out.begin_array();
  for (const auto& score : scores) write_token_score(out, score);
  out.end_array();
}

static void write_choice(json_writer& out, const draft_choice& choice) {
  out.begin_object().field("plain_to_measure", choice.plain_to_measure).key("options").begin_array();
  for (const auto& option : choice.options)
    out.begin_object()
        .field("drafter", option.drafter)
        .field("num_draft_tokens", option.num_tokens)
        .field("expected_tokens", option.expected_tokens)
        .field("cost", option.cost)
        .end_object();
  out.end_array().end_object();
}

static void write_texts(json_writer& out, const std::vector<std::string>& texts) {
  out.begin_array();
  for (const auto& text : texts) out.value(text);
  out.end_array();
}

told_round tell_round(round_trace trace, const token_speller& spell) {
  const auto texts_of = [&](const std::vector<token_id>& tokens) {
    std::vector<std::string> texts;
    for (const auto token : tokens) texts.push_back(printable_token(spell(token)));
    return texts;
  };
  auto draft_texts = texts_of(trace.draft_tokens), token_texts = texts_of(trace.tokens);
  return {std::move(trace), std::move(draft_texts), std::move(token_texts)};
}

void write_round(json_writer& out, const told_round& told) {
  const auto& round = told.trace;
  out.begin_object()
      .field("round", round.round.value)
      .field("base_length", round.base_length)
      .field("drafter", round.drafter)
      .key("draft_tokens");
  write_tokens(out, round.draft_tokens);
  write_texts(out.key("draft_texts"), told.draft_texts);
  out.key("parents").begin_array();
  for (const auto parent : round.parents) out.value(parent);
  out.end_array().key("accepted").begin_array();
  for (const auto node : round.accepted) out.value(node);
  out.end_array().field("num_accepted", round.accepted.size()).field("bonus", round.bonus);
  write_tokens(out.key("tokens"), round.tokens);
  write_texts(out.key("token_texts"), told.token_texts);
  out.field("start_us", round.verified.begin.count()).field("end_us", round.verified.end.count());
  if (round.drafted)
    out.field("draft_start_us", round.drafted->begin.count())
        .field("draft_end_us", round.drafted->end.count());
  if (round.choice) {
    out.key("auto");
    write_choice(out, *round.choice);
  }
  out.end_object();
}

void write_tokens(json_writer& out, const std::vector<token_id>& tokens) {
  out.begin_array();
  for (const auto token : tokens) out.value(token.value);
  out.end_array();
}

std::string_view to_string(finish_reason reason) noexcept {
  switch (reason) {
  case finish_reason::none:
    return "";
  case finish_reason::stop:
    return "stop";
  case finish_reason::length:
    return "length";
  case finish_reason::cancelled:
    return "abort";
  case finish_reason::error:
    return "error";
  }
  return "";
}

} // namespace paceline::wire
