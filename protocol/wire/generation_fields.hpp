#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/constraint_fields.hpp"
#include "protocol/wire/fields/field_spec.hpp"
#include "protocol/wire/reasoning_fields.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"
#include "runtime/base/shared_list.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::wire {

class field_reader;

/// Fields that all generating endpoints share, with the client's values, which were checked against their
/// ranges. `resolve` checks what depends on the model: token ids, room in the context, names of drafters.
struct generation_fields {
  std::string model; ///< empty = the first configured model
  std::optional<std::uint32_t> max_tokens;
  std::string_view max_tokens_field = "max_tokens"; ///< the client's name of it, for messages
  bool no_token_limit = false;    ///< the output may fill the context, whatever the endpoint's default
  bool clamps_max_tokens = false; ///< a max_tokens above the context is reduced, too
  std::uint32_t num_choices = 1;  ///< OpenAI's n
  sampling_params sampling;       ///< without seed and choice_index; top_p may be 0
  std::optional<std::uint64_t> seed;
  stop_params stop; ///< without max_tokens and eos_ids
  std::optional<token_id> first_target;
  std::optional<output_constraint> constraint;
  speculation_params speculation; ///< without the rule
  beam_params beams;              ///< with num_best = num_choices
  std::optional<verification_rule> rule;
  bool has_prediction = false;
  std::string prediction_text;             ///< the client's own draft of the output, as text
  shared_list<token_id> prediction_tokens; ///< the same draft as token ids; the client sends one of the two
  std::string user;                        ///< the end user that the client names
  std::int32_t priority = 0;
  std::optional<std::uint32_t> deadline_ms; ///< for the whole generation
  std::string request_id;                   ///< the client's own name for the request
  reasoning_options thoughts;               ///< for chat, responses and messages
  effort_wish effort;                       ///< how much the model is to reason
  std::string cache_salt;
  bool skip_special_tokens = true;
  bool return_token_ids = false;
  bool trace = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  /// Names of unknown fields, to be reported to the client; at most `field_reader::max_ignored`.
  std::vector<std::string> ignored_fields;
};

/// Adds names to `out.ignored_fields`, up to the limit.
void add_ignored(std::vector<std::string> names, generation_fields& out);

/// Properties of a model that limit its requests.
struct model_limits {
  std::string name;
  std::uint32_t vocab_size = 0;
  std::uint32_t context_length = 0;
  std::vector<token_id> eos_ids;
  std::vector<std::string> drafters;
  verification_rule default_rule = verification_rule::coupled;
};

/// Reads the shared fields except max_tokens, whose name differs between endpoints.
void read_generation_fields(field_reader& reader, const request_limits& limits, generation_fields& out);

/// Refuses several choices and beam searches, for endpoints whose replies have one output.
void refuse_several_outputs(field_reader& reader, const generation_fields& fields);

/// Reads the strings that end an output: the row's list, or a single string if the row allows one (OpenAI
/// accepts four, evaluation tasks send more). An empty one stops nothing.
void read_stop_strings(field_reader& reader, const field_spec& row, std::vector<std::string>& out);

/// Reads max_tokens under one of its names, that of `row`: at least `least`, or -1 for no limit. If several
/// names are read, the last one that is present has precedence.
void read_max_tokens(field_reader& reader, const field_spec& row, std::int64_t least, generation_fields& out);

/// Reads Paceline's own reply options, `token_ids` and `trace`. `reader` reads the object "paceline".
void read_reply_options(field_reader& reader, generation_fields& out);
/// Reads the whole object "paceline" for endpoints without further options in it.
void read_paceline_object(field_reader& outer, generation_fields& out);

/// The engine's request for one prompt and one choice. Without `max_tokens` the request may use
/// `default_max_tokens`, or the rest of the context if that is less or no default is given. A max_tokens that
/// does not exceed the context length is reduced to the room that the prompt leaves, with `clamps_max_tokens`
/// also a larger one. Error: context_length_exceeded if the prompt leaves no room or max_tokens is too large;
/// a prompt is never truncated.
parsed<generation_request> resolve(const generation_fields& fields, const model_limits& model,
                                   shared_list<token_id> prompt,
                                   std::optional<std::uint32_t> default_max_tokens);

/// Checks a prediction against the vocabulary, and truncates it to the context length.
std::optional<api_error> keep_usable_prediction(generation_fields& fields, const model_limits& model);

/// The error for a prompt that was not tokenized to its end because it is too long: "the prompt has more than
/// 4096 tokens; the context of 4096 leaves no room for an answer".
api_error prompt_too_long(const model_limits& model);

/// Upper bound of the bytes that one sequence of a reply that is not streamed holds until its choice is
/// written.
std::uint64_t most_kept_bytes(const generation_fields& fields, const generation_request& resolved);

/// Number of log-probabilities that all sequences of a reply that is not streamed may hold until the end.
/// `judge_kept_scores` returns the error for a request that needs more and has n above 8.
inline constexpr std::uint64_t max_kept_scores = 6'000'000;
std::optional<api_error> judge_kept_scores(const generation_fields& fields,
                                           const generation_request& resolved, std::uint64_t num_sequences);

} // namespace paceline::wire
