#include "runtime/sampling/request_validation.hpp"

#include "runtime/base/request_limits.hpp"

#include <charconv>
#include <string>
#include <string_view>

namespace paceline::sampling {

namespace {

std::string text_of(float value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}
template <class Integer>
std::string text_of(Integer value) {
  return std::to_string(value);
}

template <class Value>
error broken(std::string_view field, Value value, std::string_view rule) {
  return {errc::invalid_argument,
          std::string(field) + " = " + text_of(value) + ", must be " + std::string(rule)};
}

/// Keeps the first violated rule, so that the rules below read as a list.
class checker {
 public:
  /// NaN is not in any range.
  void in_range(std::string_view field, float value, float low, float high, std::string_view rule) {
    if (!(value >= low && value <= high)) fail(broken(field, value, rule));
  }
  void token(std::string_view field, token_id id, std::uint32_t vocab_size) {
    if (id.value < 0 || static_cast<std::uint32_t>(id.value) >= vocab_size)
      fail(broken(field, id.value, "a token id in [0, " + std::to_string(vocab_size) + ")"));
  }
  void that(bool holds, std::string_view field, std::int64_t value, std::string_view rule) {
    if (!holds) fail(broken(field, value, rule));
  }
  /// `with` names the other part of the request that excludes the field.
  void not_offered(bool present, std::string_view field, std::string_view with) {
    if (present) fail({errc::unsupported, std::string(field) + ": is not offered with " + std::string(with)});
  }
  void fail(error failure) {
    if (result) result = std::move(failure);
  }

  expected<void> result;
};

void check_sampling(checker& check, const sampling_params& params, std::uint32_t vocab_size) {
  check.in_range("temperature", params.temperature, 0, 2, "in [0, 2]");
  check.that(params.top_k >= -1, "top_k", params.top_k, "-1, 0 (all) or positive");
  if (!(params.top_p > 0 && params.top_p <= 1)) check.fail(broken("top_p", params.top_p, "in (0, 1]"));
  check.in_range("min_p", params.min_p, 0, 1, "in [0, 1]");
  check.in_range("repetition_penalty", params.repetition_penalty, 0.01F, 100, "in [0.01, 100]");
  check.in_range("presence_penalty", params.presence_penalty, -2, 2, "in [-2, 2]");
  check.in_range("frequency_penalty", params.frequency_penalty, -2, 2, "in [-2, 2]");
  for (std::size_t i = 0; i < params.logit_bias.size(); ++i) {
    const auto& [token, bias] = params.logit_bias[i];
    check.token("logit_bias", token, vocab_size);
    // NaN is not in any range; building a name for each token of a vocabulary would be slow.
    if (!(bias >= -100 && bias <= 100))
      check.fail(broken("logit_bias[" + to_string(token) + "]", bias, "in [-100, 100]"));
    check.that(i == 0 || params.logit_bias[i - 1].first < token, "logit_bias", token.value,
               "given once a token, sorted by id");
  }
  if (params.num_logprobs)
    check.that(*params.num_logprobs <= vocab_size, "logprobs", *params.num_logprobs,
               "at most the vocabulary's " + std::to_string(vocab_size));
}

void check_stop(checker& check, const generation_request& request, std::uint32_t vocab_size) {
  const stop_params& stop = request.stop;
  check.that(stop.max_tokens > 0 || request.sampling.prompt_logprobs, "max_tokens", stop.max_tokens,
             "at least 1 unless the prompt's log-probabilities are asked for");
  check.that(stop.min_tokens <= stop.max_tokens, "min_tokens", stop.min_tokens,
             "at most max_tokens = " + std::to_string(stop.max_tokens));
  for (const token_id token : stop.eos_ids) check.token("eos_token_id", token, vocab_size);
  for (const token_id token : stop.stop_ids) check.token("stop_token_ids", token, vocab_size);
  for (const std::string& text : stop.stop_strings)
    if (text.empty()) check.fail({errc::invalid_argument, "stop: a stop string must not be empty"});
}

void check_speculation(checker& check, const speculation_params& params) {
  if (params.draft_length)
    check.that(*params.draft_length <= max_draft_length, "speculation.draft_length", *params.draft_length,
               "0 (none) to " + std::to_string(max_draft_length));
  const auto share = [&](std::string_view field, float value) {
    if (!(value > 0 && value <= 1)) check.fail(broken(field, value, "in (0, 1]"));
  };
  share("speculation.lenience", params.lenience);
  share("speculation.epsilon", params.epsilon);
  share("speculation.delta", params.delta);
}

/// A beam search draws nothing and reports its results at the end.
void check_beams(checker& check, const generation_request& request) {
  const auto& [width, num_best, length_penalty] = request.beams;
  if (width == 0) return;
  check.that(width <= max_beam_width, "beam_width", width,
             "0 (no beam search) to " + std::to_string(max_beam_width));
  check.that(num_best >= 1 && num_best <= width, "n", num_best, "1 to beam_width = " + std::to_string(width));
  check.in_range("length_penalty", length_penalty, -10, 10, "in [-10, 10]");
  const auto& sampling = request.sampling;
  if (sampling.temperature != 0 && sampling.temperature != 1)
    check.fail(broken("temperature", sampling.temperature, "0 or 1 with beam search, which draws nothing"));
  check.that(sampling.top_k <= 0, "top_k", sampling.top_k, "0 with beam search, which draws nothing");
  if (sampling.top_p != 1)
    check.fail(broken("top_p", sampling.top_p, "1 with beam search, which draws nothing"));
  if (sampling.min_p != 0)
    check.fail(broken("min_p", sampling.min_p, "0 with beam search, which draws nothing"));
  if (request.speculation.rule != verification_rule::coupled)
    check.fail({errc::invalid_argument, "speculation.rule: a beam search verifies drafts by its own steps"});
  constexpr auto with = "beam search";
  check.not_offered(sampling.num_logprobs.has_value() || sampling.prompt_logprobs, "logprobs", with);
  check.not_offered(request.first_target.has_value(), "first_target", with);
  check.not_offered(request.trace, "trace", with);
}

/// A constraint determines when the output ends and what it begins with.
void check_constraint(checker& check, const generation_request& request) {
  if (!request.constraint) return;
  constexpr auto with = "a grammar";
  check.not_offered(request.beams.width > 0, "use_beam_search", with);
  check.not_offered(request.first_target.has_value(), "first_target", with);
  check.not_offered(request.stop.min_tokens > 0, "min_tokens", with);
  check.not_offered(request.stop.ignore_eos, "ignore_eos", with);
}

} // namespace

expected<void> validate(const generation_request& request, std::uint32_t vocab_size,
                        std::uint32_t context_length) {
  checker check;
  if (request.prompt.empty()) check.fail({errc::invalid_argument, "prompt: must have at least one token"});
  for (const token_id token : request.prompt) check.token("prompt", token, vocab_size);
  for (const token_id token : request.prediction) check.token("prediction", token, vocab_size);
  check_sampling(check, request.sampling, vocab_size);
  check_stop(check, request, vocab_size);
  check_speculation(check, request.speculation);
  check_beams(check, request);
  check_constraint(check, request);
  if (request.first_target) check.token("first_target", *request.first_target, vocab_size);
  check.that(request.timeout.count() > 0, "timeout", request.timeout.count(), "positive (milliseconds)");
  const std::uint64_t wanted = std::uint64_t{request.prompt.size()} + request.stop.max_tokens;
  if (wanted > context_length)
    check.fail({errc::context_length_exceeded,
                "the prompt's " + std::to_string(request.prompt.size()) +
                    " tokens and max_tokens = " + std::to_string(request.stop.max_tokens) +
                    " do not fit into the context of " + std::to_string(context_length)});
  return std::move(check.result);
}

} // namespace paceline::sampling
