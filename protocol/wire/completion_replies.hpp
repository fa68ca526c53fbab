#pragma once

#include "protocol/wire/usage.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::wire {

/// Same on a reply and on every chunk of a stream.
struct reply_identity {
  std::string id;           ///< "cmpl-…", "chatcmpl-…"
  std::int64_t created = 0; ///< seconds since 1970
  std::string model;
  std::string fingerprint;
};

/// What one chunk adds to a choice.
struct reply_choice {
  std::uint32_t index = 0;
  std::string text;
  std::vector<token_id> tokens;
  std::vector<token_score> scores;
  std::size_t text_offset = 0; ///< characters of the choice before this chunk (legacy log-probabilities)
  std::vector<round_trace> rounds;
  finish_reason finish = finish_reason::none;
};

/// What the client asked to see.
struct reply_shape {
  bool scores = false;
  bool token_ids = false;
  bool trace = false;
  bool usage_in_stream = false;  ///< every chunk has "usage": null, the last one the figures
  bool continuous_usage = false; ///< every chunk has the figures so far
};

/// What closes a reply.
struct reply_totals {
  usage used;
  std::optional<generation_metrics> metrics; ///< of requests with one sequence
};

// Of a reply that is not streamed: whole_reply.hpp.

/// Opens the object of a reply or chunk: "id" to "system_fingerprint".
void open_reply(json_writer& out, const reply_identity& identity, std::string_view object);
/// "usage", and for requests with one sequence "metrics" and "timings".
void write_totals(json_writer& out, const reply_totals& totals);

/// `prompt` is set in the first chunk of a choice whose client asked for token ids.
std::string completion_chunk(const reply_identity& identity, const reply_shape& shape,
                             const reply_choice& choice, const std::vector<token_id>* prompt,
                             const usage& so_far);
std::string completion_usage_chunk(const reply_identity& identity, const reply_totals& totals);

/// The chunk that opens a choice: its role, no text.
std::string chat_opening_chunk(const reply_identity& identity, const reply_shape& shape, std::uint32_t index,
                               const std::vector<token_id>* prompt);
std::string chat_chunk(const reply_identity& identity, const reply_shape& shape, const reply_choice& choice,
                       const usage& so_far);
std::string chat_usage_chunk(const reply_identity& identity, const reply_totals& totals);

} // namespace paceline::wire
