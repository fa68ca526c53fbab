#include "protocol/wire/fields/reference.hpp"

#include "protocol/wire/fields/field_table.hpp"
#include "runtime/base/joined.hpp"

#include <charconv>
#include <utility>

namespace paceline::wire {

namespace {

std::string code(std::string_view text) { return std::string("`").append(text).append("`"); }

/// The number in its shortest form, without a fraction if it is whole.
std::string printed(float number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

/// "1 to 16 bytes" or "up to 16 bytes". Without a bound in the table, the result is "bytes".
std::string range_of(const field_spec& row, std::string_view unit) {
  const bool is_bounded = row.most > 0 && row.most < max_text_bytes;
  std::string out;
  if (is_bounded && row.least == 0)
    out = "up to " + std::to_string(row.most);
  else if (is_bounded)
    out = std::to_string(row.least) + " to " + std::to_string(row.most);
  return out.empty() ? std::string(unit) : out.append(" ").append(unit);
}

std::string integers(const field_spec& row) {
  if (row.least == row.most) return std::to_string(row.least);
  if (row.most < max_int32) return std::to_string(row.least) + " to " + std::to_string(row.most);
  return row.least < -max_int32 ? "32-bit integer" : "integer ≥ " + std::to_string(row.least);
}

std::string numbers(const field_spec& row) {
  return (row.range.min_excluded ? "above " : "") + printed(row.range.min) + " to " + printed(row.range.max);
}

std::string allowed(const field_spec& row) {
  switch (row.type) {
  case field_type::boolean:
    return "bool";
  case field_type::integer:
    return integers(row);
  case field_type::number:
    return numbers(row);
  case field_type::text:
    if (!row.choices.empty()) return joined(row.choices, ", ", code);
    return row.most < max_text_bytes ? range_of(row, "bytes") : "string";
  case field_type::object:
    return "object";
  case field_type::object_list:
    return range_of(row, "objects");
  case field_type::text_or_objects:
    return "string, or " + range_of(row, "objects");
  case field_type::text_or_list:
    return "string, or " + range_of(row, "of at most ") + std::to_string(row.most_bytes) + " bytes";
  case field_type::text_list:
    return range_of(row, "texts of at most ") + std::to_string(row.most_bytes) + " bytes";
  case field_type::choice_list:
    return "list of " + joined(row.choices, ", ", code);
  case field_type::id_list:
    return range_of(row, "token ids");
  case field_type::number_map:
    return "{\"id\": " + numbers(row) + "}";
  case field_type::other:
    break;
  }
  return std::string(row.allowed);
}

std::string initial(const field_spec& row) {
  if (row.required) return "required";
  if (!row.unless.empty()) return "required, or " + code(row.unless);
  if (!is_json(row.initial)) return std::string(row.initial);
  return code(row.initial.starts_with('"') ? row.initial.substr(1, row.initial.size() - 2) : row.initial);
}

/// The endpoints of a field. The text is empty for fields of every endpoint that generates.
std::string requests(const field_spec& row) {
  if (row.where == in::generating) return {};
  static constexpr std::pair<request_kinds, std::string_view> names[] = {
      {in::completions, "completions"}, {in::chat, "chat"},         {in::messages, "messages"},
      {in::all_responses, "responses"}, {in::tokenize, "tokenize"}, {in::detokenize, "detokenize"}};
  if (row.where == in::responses) return "responses over HTTP";
  if (row.where == in::frames) return "WebSocket";
  if (row.where == in::count_tokens) return "count_tokens";
  if ((row.where & in::generating) == in::generating && row.where != in::generating) return "all";
  std::string out;
  for (const auto& [kind, name] : names)
    if ((row.where & kind) != 0) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

void add_line(std::string& out, std::initializer_list<std::string> cells) {
  out += '|';
  for (const auto& cell : cells) out.append(cell.empty() ? " |" : " " + cell + " |");
  out += '\n';
}

void add_supported(std::string& out, const field_group& group) {
  out.append("\n**").append(group.title).append("**\n\n");
  out += "| field | of | allowed | default | |\n| --- | --- | --- | --- | --- |\n";
  for (const auto& row : group.rows)
    if (row.state == field_state::supported)
      add_line(out, {code(path_of(row)), requests(row), allowed(row), initial(row), std::string(row.doc)});
}

/// Adds the other rows. Rows with the same text share a line.
void add_others(std::string& out, field_state state) {
  const field_spec* previous = nullptr;
  std::string names;
  const auto end_line = [&] {
    if (previous == nullptr) return;
    const auto passing = previous->neutral_text.empty() ? std::string() : code(previous->neutral_text);
    if (state == field_state::refused)
      add_line(out, {names, requests(*previous), passing, std::string(previous->doc)});
    else
      add_line(out, {names, requests(*previous), std::string(previous->doc)});
  };
  for (const auto& group : field_groups)
    for (const auto& row : group.rows) {
      if (row.state != state) continue;
      const bool continues = previous != nullptr && previous->where == row.where &&
                             previous->neutral_text == row.neutral_text && previous->doc == row.doc;
      if (!continues) end_line();
      names = continues ? names + ", " + code(path_of(row)) : code(path_of(row));
      previous = &row;
    }
  end_line();
}

} // namespace

std::string field_reference() {
  std::string out =
      "\n`a.b` is field `b` of the object `a`, `a[].b` that of each element of the list `a`. An "
      "empty second column: every endpoint that\ngenerates (completions, chat, messages, responses). `messages` "
      "stands for `/v1/messages` and, except for `max_tokens`, `/v1/messages/count_tokens`.\n";
  for (const auto& group : field_groups)
    if (group.rows.front().state == field_state::supported) add_supported(out, group);
  out += "\n**Refused**, unless they have the value that passes or are null\n\n"
         "| field | of | passes | why |\n| --- | --- | --- | --- |\n";
  add_others(out, field_state::refused);
  out += "\n**Without effect**, with any value\n\n| field | of | |\n| --- | --- | --- |\n";
  add_others(out, field_state::without_effect);
  return out;
}

} // namespace paceline::wire
