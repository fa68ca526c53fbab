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

/// What all chunks of one stream have in common.
struct stream_terms {
  bool chat = false;
  wire::reply_identity identity;
  wire::reply_shape shape;
  const model_view* model = nullptr;
};

/// What one event of the engine adds to a choice, as the engine gave it: much less than the text that it
/// becomes where there are log-probabilities.
struct stream_chunk {
  std::uint32_t index = 0;
  bool opens = false;
  std::shared_ptr<const std::string> prompt_text; ///< of an echo, in the first chunk
  std::optional<token_id> first_of_prompt;        ///< of an echo with scores: nothing stands before it
  std::optional<shared_list<token_id>> prompt;    ///< in the first chunk, where the client asked for ids
  std::size_t text_offset = 0;                    ///< characters of the choice before this chunk
  token_event event;
  wire::usage so_far;
};

/// The event of the stream; empty if there is nothing to tell.
std::string write_chunk_event(const stream_terms& terms, const stream_chunk& chunk);
/// The same, written when it is its turn. None if there is nothing to tell.
std::unique_ptr<wire::text_source> write_chunk_later(std::shared_ptr<const stream_terms> terms,
                                                     stream_chunk chunk);

} // namespace paceline::server
