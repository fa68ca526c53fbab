#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/output/output_item.hpp"
#include "protocol/wire/usage.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::wire {

class json_writer;

/// The fields that are the same in a message and in its first event.
struct message_identity {
  std::string id; ///< "msg_…"
  std::string model;
};

/// How a message ended.
struct message_ending {
  finish_reason finish = finish_reason::none;
  bool has_calls = false;
  std::string stop_sequence; ///< the stop string that ended the output; empty: none
  usage used;
};

/// One event of the stream of /v1/messages.
struct message_event {
  std::string type;
  std::string json;
};

/// Writes a message of /v1/messages, streamed: message_start, then for each block of the output
/// content_block_start, its deltas and content_block_stop, then message_delta and message_stop. Blocks are
/// thoughts, text and calls of tools. Invariant: the blocks are the same as those of `whole_message`.
class message_stream {
 public:
  explicit message_stream(message_identity identity) : identity_(std::move(identity)) {}

  /// message_start. It reports `prompt_tokens`; how many of them were cached is reported at the end.
  message_event open(std::uint32_t prompt_tokens) const;
  std::vector<message_event> add(const output_items& items);
  std::vector<message_event> close(const message_ending& ending);

 private:
  using events = std::vector<message_event>;

  void begin_block(const output_item& first, events& out);
  void end_block(events& out);

  message_identity identity_;
  std::uint32_t num_blocks_ = 0;
  std::optional<output_item::kind> open_; ///< what the open block holds
};

/// The message as one JSON text. In `items`, adjacent items of the same kind must be joined.
std::string whole_message(const message_identity& identity, const output_items& items,
                          const message_ending& ending);

/// {"type":"error","error":{"type","message"}}: an error in Anthropic's form.
std::string to_message_error(const api_error& failure);

} // namespace paceline::wire
