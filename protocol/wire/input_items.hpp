#pragma once

#include "protocol/wire/chat_prompt.hpp"
#include "protocol/wire/response_output.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace paceline::wire {

/// The part of a list of items that a client asks for.
struct item_page {
  std::size_t limit = 20;
  bool newest_first = true;
  std::string after; ///< id of the last item that the client has; empty: from the beginning
};

/// The list of GET /v1/responses/{id}/input_items: the turns of a response's prompt as items. A turn with
/// calls is several items. nullopt if no item has the id `page.after`.
std::optional<output_json> input_item_list(const std::string& response_id,
                                           std::span<const chat_message> turns, const item_page& page);

} // namespace paceline::wire
