#pragma once

#include "protocol/wire/output/output_item.hpp"
#include "protocol/wire/usage.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::wire {

/// Fields with the same values in all chunks of a stream, and in a reply that is not streamed.
struct reply_identity {
  std::string id;           ///< "cmpl-…", "chatcmpl-…"
  std::int64_t created = 0; ///< seconds since 1970
  std::string model;
  std::string fingerprint;
};

/// The part of a choice that one chunk of a stream adds.
struct reply_choice {
  std::uint32_t index = 0;
  output_items items; ///< in a completion (not a chat) only text
  std::vector<token_id> tokens;
  std::vector<token_score> scores;
  /// Characters of the choice before this chunk (for the log-probabilities of completions).
  std::size_t text_offset = 0;
  std::vector<told_round> rounds;
  finish_reason finish = finish_reason::none;
  bool has_calls = false; ///< the choice has function calls, in this chunk or an earlier one
};

/// Which parts of a reply the client asked for.
struct reply_shape {
  bool scores = false;
  bool token_ids = false;
  bool trace = false;
  bool usage_in_stream = false;  ///< every chunk has "usage": null, the last one has the counts
  bool continuous_usage = false; ///< every chunk has the counts so far
};

/// The closing part of a reply.
struct reply_totals {
  usage used;
  std::optional<generation_metrics> metrics; ///< for requests with one sequence
};

/// Value of "finish_reason" in a choice; empty for `finish_reason::none`. For `finish_reason::stop` it is
/// "tool_calls" if `has_calls` is set.
std::string_view finish_name(finish_reason reason, bool has_calls) noexcept;

// Parts of replies and chunks; whole_reply.hpp uses them, too.

/// Begins the object of a reply or chunk: writes the fields from "id" to "system_fingerprint".
void open_reply(json_writer& out, const reply_identity& identity, std::string_view object);
/// Writes "usage" and, for requests with one sequence, "metrics" and "timings".
void write_totals(json_writer& out, const reply_totals& totals);

// The chunks of a stream. `prompt` is not null in the first chunk of a choice if the client asked for token
// ids. `so_far`: counts up to this chunk, for `reply_shape::continuous_usage`.

std::string completion_chunk(const reply_identity& identity, const reply_shape& shape,
                             const reply_choice& choice, const std::vector<token_id>* prompt,
                             const usage& so_far);
/// The last chunk, without choices, with the counts of the whole reply.
std::string completion_usage_chunk(const reply_identity& identity, const reply_totals& totals);

/// The first chunk of a choice: its role and no text.
std::string chat_opening_chunk(const reply_identity& identity, const reply_shape& shape, std::uint32_t index,
                               const std::vector<token_id>* prompt, const usage& so_far);
std::string chat_chunk(const reply_identity& identity, const reply_shape& shape, const reply_choice& choice,
                       const usage& so_far);
std::string chat_usage_chunk(const reply_identity& identity, const reply_totals& totals);

} // namespace paceline::wire
