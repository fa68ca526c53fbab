#pragma once

#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/response_output.hpp"

#include <memory>
#include <string_view>
#include <vector>

namespace paceline::wire {

// The items of a response's output as JSON. Text of items is omitted: `marked` notes where it belongs.

/// Marks the position of a member whose value is a part of the output, or of the request if `part` is null.
void mark(json_writer& out, std::string_view name, output_json::content what,
          const std::shared_ptr<const response_part>& part, std::vector<output_json::mark>& marked);
/// An item that begins: without content.
void write_new_item(json_writer& out, const response_part& item);
/// A complete item.
void write_item(json_writer& out, const std::shared_ptr<const response_part>& item,
                std::vector<output_json::mark>& marked);
/// The content of a message or of thoughts; of a call there is none.
void write_content(json_writer& out, const std::shared_ptr<const response_part>& item,
                   std::vector<output_json::mark>& marked);
/// The name of the event that carries more of an item, or all of its text ("delta", "done").
std::string_view delta_event(response_part::kind what) noexcept;
std::string_view done_event(response_part::kind what) noexcept;

} // namespace paceline::wire
