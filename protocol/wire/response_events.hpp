#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/output/output_item.hpp"
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

  /// Bytes that the event holds in memory, including output that it shares with other events.
  std::size_t num_bytes() const noexcept { return long_json ? long_json->num_bytes() : json.size(); }
};

struct response_identity {
  std::string id;         ///< "resp_…"
  std::string message_id; ///< "msg_…" with the rest of `id`; ids of further items are made from it
  std::string stream_id;  ///< lane; empty = none
  std::int64_t created = 0;
  std::string model;
};

/// What one round adds to the output.
struct response_delta {
  output_items items;
  std::vector<token_id> tokens;
  std::vector<token_logprob> scores;
};

/// How a response ended.
struct response_outcome {
  finish_reason finish = finish_reason::none;
  std::optional<api_error> failure; ///< with finish_reason::error
  usage used;
  std::optional<generation_metrics> metrics;
  std::int64_t ended = 0; ///< Unix time in seconds
};

/// Turns one generation into the event sequence of the Responses protocol: created and in_progress; then, for
/// each item of the output, output_item.added, its deltas and output_item.done; at the end completed,
/// incomplete or failed. Items are messages, thoughts ("reasoning") and function calls. Sequence numbers
/// start at 0 and have no gaps. Invariant: the text of an item in the final object is the concatenation of
/// its deltas.
class response_narrator {
 public:
  /// `spell` gives the text of tokens in log-probabilities. It may be called on any thread for as long as an
  /// event exists. `only_text`: the output will be one message, which `open` announces.
  response_narrator(response_identity identity, const response_request& request, token_speller spell,
                    bool only_text = true);

  std::vector<response_event> open();
  std::vector<response_event> delta(const response_delta& added);
  response_event round(const round_trace& round);
  std::vector<response_event> close(const response_outcome& outcome);

  /// The response object in its current state; after `close`, the body of a reply without streaming.
  output_json object() const;
  /// The response object with `status` as its status and without output, for readers on other threads while
  /// the response runs. To be called before `open`.
  output_json object_without_output(std::string status) const;
  const response_identity& identity() const noexcept { return identity_; }
  /// The output as a turn of the conversation.
  chat_message answer() const;
  /// The complete items of the output, in order.
  const std::vector<std::shared_ptr<const response_part>>& items() const noexcept { return items_; }
  std::uint32_t num_tokens() const noexcept { return num_tokens_; }

 private:
  using events = std::vector<response_event>;
  using marks = std::vector<output_json::mark>;
  using part = std::shared_ptr<const response_part>;

  response_event make(std::string type, json_writer& body);
  /// An event that repeats the output or the request at the positions `marked`.
  response_event make(std::string type, json_writer& body, marks marked);
  json_writer open_event(const std::string& type) const;
  response_event state_event(const std::string& type);

  void open_item(response_part::kind what, events& out);
  void close_item(bool whole, events& out);
  /// Makes an item of kind `what` the current one: begins a new item if the current one has another kind.
  void ensure_item(response_part::kind what, events& out);
  void add(const output_item& item, bool last, events& out);
  void add_delta(const std::string& text, bool last, events& out);

  // These functions omit the output and the long parts of the request, and record in `marked` where these
  // belong.
  void write_object(json_writer& out, marks& marked) const;
  void write_request_echo(json_writer& out, marks& marked) const;
  bool has_output() const noexcept { return request_generate_; }

  response_identity identity_;
  // Parts of the request that the object repeats.
  std::shared_ptr<const response_echo> echo_; ///< shared by the events
  std::string previous_response_id_;
  std::string metadata_;
  std::string user_;
  std::string safety_identifier_;
  std::string prompt_cache_key_;
  std::string effort_; ///< `reasoning.effort`; empty: not given
  tool_demand demand_;
  std::optional<std::uint32_t> max_output_tokens_;
  std::uint32_t num_top_logprobs_ = 0;
  float temperature_ = 1;
  float top_p_ = 1;
  bool store_ = true;
  bool parallel_tool_calls_ = true;
  bool request_generate_ = true;
  bool shows_scores_ = false;
  bool shows_token_ids_ = false;
  bool shows_positions_ = false;
  bool only_text_ = true;
  // State of the response so far.
  std::string status_ = "in_progress";
  token_speller spell_;
  std::vector<part> items_;                ///< complete items, in order
  std::shared_ptr<response_part> current_; ///< the item that is written; null: none
  bool is_open_call_ = false;              ///< `current_` is a call that has not ended
  std::shared_ptr<response_part> tokens_;  ///< grows until `close`; shared by events afterwards
  std::vector<token_logprob> next_scores_; ///< for the next delta of a message
  std::vector<token_id> next_tokens_;      ///< for the next delta
  std::uint32_t num_tokens_ = 0;
  std::uint32_t num_told_tokens_ = 0; ///< output tokens in earlier deltas: the next delta's `token_index`
  std::uint64_t next_sequence_number_ = 0;
  response_outcome outcome_;
};

} // namespace paceline::wire
