#pragma once

#include "protocol/wire/chat_prompt.hpp"
#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/response_output.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::wire {

// The items of a response's output as JSON. The text of items is omitted, and its position is recorded in
// `marked`.

/// Marks the position of a member whose value is a part of the output, or of the request if `part` is null.
void mark(json_writer& out, std::string_view name, output_json::content what,
          const std::shared_ptr<const response_part>& part, std::vector<output_json::mark>& marked);
/// An item that has just begun, without content.
void write_new_item(json_writer& out, const response_part& item);
/// A complete item.
void write_item(json_writer& out, const std::shared_ptr<const response_part>& item,
                std::vector<output_json::mark>& marked);
/// The content of a message or of thoughts; a call has none.
void write_content(json_writer& out, const std::shared_ptr<const response_part>& item,
                   std::vector<output_json::mark>& marked);
/// Appends a complete item to `turn`, the assistant's turn, which already has the items before it.
void add_to_turn(const response_part& item, chat_message& turn);
/// Id of the response that has the item. It is part of the item's id.
std::string response_of_item(std::string_view item_id);

/// Types of the events that carry a piece of an item's text ("….delta"), and all of it ("….done").
std::string_view delta_event(response_part::kind what) noexcept;
std::string_view done_event(response_part::kind what) noexcept;

} // namespace paceline::wire
