#pragma once

#include "protocol/wire/completion_replies.hpp"
#include "protocol/wire/text_source.hpp"
#include "server/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::server {

/// The data that all chunks of one stream share.
struct stream_terms {
  bool chat = false;
  wire::reply_identity identity;
  wire::reply_shape shape;
  const model_view* model = nullptr;
};

/// What one event of the engine adds to a choice, in the engine's own structs. With log-probabilities these
/// are much smaller than the JSON that is written from them.
struct stream_chunk {
  std::uint32_t index = 0;
  bool opens = false;
  std::shared_ptr<const std::string> prompt_text; ///< for an echo, in the first chunk
  /// For an echo with scores: the prompt's first token, which has no score.
  std::optional<token_id> first_of_prompt;
  std::optional<shared_list<token_id>> prompt; ///< in the first chunk, if the client asked for token ids
  std::size_t text_offset = 0;                 ///< characters of the choice before this chunk
  token_event event;                           ///< without its text, which is in `items`
  wire::output_items items;
  bool has_calls = false; ///< the choice has calls of functions so far
  wire::usage so_far;
};

/// The server-sent events for the chunk, as text; empty if there is nothing to send. In a chat, the opening,
/// the content and the end of a choice are separate events.
std::string write_chunk_event(const stream_terms& terms, const stream_chunk& chunk);
/// The same as a source that generates the text when its turn to be sent comes; null if there is nothing to
/// send.
std::unique_ptr<wire::text_source> write_chunk_later(std::shared_ptr<const stream_terms> terms,
                                                     stream_chunk chunk);

} // namespace paceline::server
