#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/response_output.hpp"
#include "protocol/wire/usage.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::wire {

/// One event of the Responses protocol. SSE and WebSocket carry the same JSON.
struct response_event {
  std::string type;
  std::string json; ///< empty if `long_json` is set
  std::uint64_t sequence_number = 0;
  std::uint32_t end_token = 0; ///< number of output tokens that the client has seen after this event
  std::optional<output_json> long_json = std::nullopt; ///< set for an event that repeats a long output

  /// Bytes it holds in memory, including an output that several events share.
  std::size_t num_bytes() const noexcept { return long_json ? long_json->num_bytes() : json.size(); }
};

struct response_identity {
  std::string id;         ///< "resp_…"
  std::string message_id; ///< "msg_…"
  std::string stream_id;  ///< lane; empty = none
  std::int64_t created = 0;
  std::string model;
};

/// Tokens added by one round, as the client sees them.
struct response_delta {
  std::string text;
  std::vector<token_id> tokens;
  std::vector<token_logprob> scores;
};

/// How a response ended.
struct response_outcome {
  finish_reason finish = finish_reason::none;
  std::optional<api_error> failure; ///< with finish_reason::error
  usage used;
  std::optional<generation_metrics> metrics;
};

/// Turns one generation into the event sequence of the Responses protocol: created, in_progress,
/// output_item.added, content_part.added, output_text.delta*, output_text.done, content_part.done,
/// output_item.done, and completed, incomplete or failed. Sequence numbers start at 0 and have no gaps.
/// Invariant: the text of the final object is the concatenation of all deltas.
class response_narrator {
 public:
  /// `spell` gives the text of tokens in log-probabilities. It is called on any thread while an event exists.
  response_narrator(response_identity identity, const response_request& request, token_speller spell);

  std::vector<response_event> open();
  response_event delta(const response_delta& added);
  response_event round(const round_trace& round);
  std::vector<response_event> close(const response_outcome& outcome);

  /// The response object in its current state; after `close`, the body of a reply without streaming.
  output_json object() const;
  const response_identity& identity() const noexcept { return identity_; }
  const std::string& text() const noexcept { return output_->text; }
  std::uint32_t num_tokens() const noexcept { return num_tokens_; }

 private:
  using marks = std::vector<output_json::mark>;

  response_event make(std::string type, json_writer& body);
  /// An event that repeats the output or the request at the positions `marked`.
  response_event make(std::string type, json_writer& body, marks marked);
  json_writer open_event(const std::string& type) const;
  response_event state_event(const std::string& type);
  // These functions omit output and request, and note in `marked` where they belong.
  void write_object(json_writer& out, marks& marked) const;
  void write_item(json_writer& out, marks& marked) const;
  static void write_part(json_writer& out, marks& marked);
  void write_request_echo(json_writer& out, marks& marked) const;
  bool has_output() const noexcept { return request_generate_; }

  response_identity identity_;
  // Parts of the request that the object repeats.
  std::shared_ptr<const response_echo> echo_; ///< shared by the events
  std::string previous_response_id_;
  std::string metadata_;
  std::optional<std::uint32_t> max_output_tokens_;
  std::uint32_t num_top_logprobs_ = 0;
  float temperature_ = 1;
  float top_p_ = 1;
  bool store_ = true;
  bool request_generate_ = true;
  bool shows_scores_ = false;
  bool shows_token_ids_ = false;
  bool shows_positions_ = false;
  // State of the response so far.
  std::string status_ = "in_progress";
  std::shared_ptr<response_output> output_; ///< grows until `close`; shared by events afterwards
  std::uint32_t num_tokens_ = 0;
  std::uint64_t next_sequence_number_ = 0;
  response_outcome outcome_;
};

} // namespace paceline::wire
