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
  std::string_view max_tokens_field = "max_tokens"; ///< name under which the client sent it, for errors
  bool no_token_limit = false;    ///< the output may fill the context, whatever the endpoint's default
  bool clamps_max_tokens = false; ///< a max_tokens above the context is reduced instead of refused
  std::uint32_t num_choices = 1;  ///< OpenAI's n
  sampling_params sampling;       ///< without seed and choice_index; top_p may be 0
  std::optional<std::uint64_t> seed;
  stop_params stop; ///< without max_tokens and eos_ids
  /// Forces the first output token.
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
  std::optional<std::uint32_t> deadline_ms; ///< from admission to the last token
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

/// Reads the strings that end an output from the field of `row`: a list, or a single string if the row allows
/// one. Empty strings are left out. (OpenAI's limit is four strings, but evaluation tools send more.)
void read_stop_strings(field_reader& reader, const field_spec& row, std::vector<std::string>& out);

/// Reads max_tokens under one of its names, the name of `row`. The value is at least `least`, or -1 for no
/// limit. If several names are read, the last one that is present has precedence.
void read_max_tokens(field_reader& reader, const field_spec& row, std::int64_t least, generation_fields& out);

/// Reads Paceline's own reply options, `token_ids` and `trace`. `reader` reads the object "paceline".
void read_reply_options(field_reader& reader, generation_fields& out);
/// Reads the whole object "paceline" for endpoints without further options in it.
void read_paceline_object(field_reader& outer, generation_fields& out);

/// The engine's request for one prompt and one choice. The output is limited to the room that the prompt
/// leaves in the context, and to `max_tokens`. If the client sent no max_tokens, `default_max_tokens` (if
/// set) is the limit instead; after -1 (`no_token_limit`) only the context limits the output. A prompt is
/// never truncated. Error context_length_exceeded: the prompt leaves no room for an output (unless
/// `max_tokens` is 0), or `max_tokens` exceeds the context length and `clamps_max_tokens` is not set. Other
/// errors: token ids outside the vocabulary, an unknown drafter, fields that are incompatible with beam
/// search, and a min_tokens above the limit of the output.
parsed<generation_request> resolve(const generation_fields& fields, const model_limits& model,
                                   shared_list<token_id> prompt,
                                   std::optional<std::uint32_t> default_max_tokens);

/// Checks a prediction against the vocabulary, and truncates it to the context length.
std::optional<api_error> keep_usable_prediction(generation_fields& fields, const model_limits& model);

/// The error for a prompt that was not tokenized to its end because it is too long: "the prompt has more than
/// 4096 tokens; this model's maximum context length is 4096 tokens".
api_error prompt_too_long(const model_limits& model);

/// Estimated upper bound, in bytes, of the memory that one sequence of a reply that is not streamed occupies
/// until its choice is written. It assumes 8 bytes of text for each token.
std::uint64_t most_kept_bytes(const generation_fields& fields, const generation_request& resolved);

/// Limit for the log-probabilities that all sequences of a reply that is not streamed hold until the end.
/// `judge_kept_scores` returns the error for a request above this limit. Requests with n of at most 8 are
/// exempt.
inline constexpr std::uint64_t max_kept_scores = 6'000'000;
std::optional<api_error> judge_kept_scores(const generation_fields& fields,
                                           const generation_request& resolved, std::uint64_t num_sequences);

} // namespace paceline::wire
