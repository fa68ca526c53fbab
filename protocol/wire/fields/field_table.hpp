#pragma once

#include "protocol/wire/fields/constraint_rows.hpp"
#include "protocol/wire/fields/endpoint_rows.hpp"
#include "protocol/wire/fields/generation_rows.hpp"
#include "protocol/wire/fields/message_api_rows.hpp"
#include "protocol/wire/fields/refused_rows.hpp"

#include <string>

namespace paceline::wire {

// To add a field: write its row, read it in the parser of its requests by spec("path"), and run
// `PACELINE_UPDATE_REFERENCE=1 wire_test`, which rewrites the tables of docs/protocol.md. Tests send the
// examples of that page. field_table_test checks for every row that the parsers behave as it says.

/// All fields, in the order of the documentation.
inline constexpr field_group field_groups[] = {
    {"Completions", rows::completion_rows},
    {"Chat", rows::chat_rows},
    {"Messages", rows::message_rows},
    {"Tools", rows::tool_rows},
    {"Thoughts", rows::reasoning_rows},
    {"Every generating endpoint", rows::request_rows},
    {"Sampling", rows::sampling_rows},
    {"Ending", rows::ending_rows},
    {"Structured output", rows::constraint_rows},
    {"Reply", rows::reply_rows},
    {"Speculation", rows::speculation_rows},
    {"Beam search", rows::beam_rows},
    {"Responses", rows::response_rows},
    {"Anthropic's messages", rows::message_api_rows},
    {"Frames of the WebSocket mode", rows::frame_rows},
    {"Tokenizer", rows::tokenizer_rows},
    {"Refused", rows::refused_rows},
    {"Refused", rows::refused_completion_rows},
    {"Refused", rows::refused_chat_rows},
    {"Refused", rows::refused_message_rows},
    {"Refused", rows::refused_response_rows},
    {"Refused", rows::refused_http_response_rows},
    {"Refused", rows::refused_message_api_rows},
    {"Without effect", rows::rows_without_effect},
    {"Without effect", rows::message_api_rows_without_effect},
};

/// True if object and name of the row form `path`: "speculation.draft_length".
constexpr bool is_at(const field_spec& row, std::string_view path) {
  if (row.object.empty()) return row.name == path;
  return path.size() == row.object.size() + 1 + row.name.size() && path.starts_with(row.object) &&
         path[row.object.size()] == '.' && path.ends_with(row.name);
}

/// The row of the field `path` for requests of `where`. Does not compile unless there is exactly one.
consteval const field_spec& spec(std::string_view path, request_kinds where = in::any) {
  const field_spec* found = nullptr;
  bool is_found = false; // GCC 12 with UBSan takes no comparison of `found` with null for a constant
  for (const auto& group : field_groups)
    for (const auto& row : group.rows) {
      if ((row.where & where) == 0 || !is_at(row, path)) continue;
      if (is_found) throw "several rows: say of which requests";
      found = &row;
      is_found = true;
    }
  if (!is_found) throw "no such row";
  return *found;
}

/// "speculation.draft_length"
std::string path_of(const field_spec& row);
/// True if a default is given as JSON, false if in words.
bool is_json(std::string_view initial) noexcept;

/// Index of `name` among the names of all fields of all objects; -1 if no field has this name. Takes constant
/// time.
int index_of_name(std::string_view name) noexcept;
/// Number of different names, and length in bytes of the longest name.
extern const std::size_t num_field_names;
extern const std::size_t longest_field_name;

} // namespace paceline::wire
