#include "protocol/wire/unsupported_fields.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"

#include <string>

namespace paceline::wire {

void refuse_unsupported(field_reader& reader, request_kinds kind) {
  for (const auto& group : field_groups)
    for (const auto& row : group.rows) {
      if ((row.where & kind) == 0 || !row.object.empty()) continue;
      if (row.state == field_state::refused) reader.refuse(row);
      if (row.state == field_state::without_effect) reader.accept(row);
    }
}

void read_response_format(field_reader& outer) {
  const auto fields = outer.object(spec("response_format"));
  if (!fields) return;
  field_reader reader(*fields, outer.path_of("response_format"));
  std::string type;
  if (!reader.text(spec("response_format.type"), type) && !reader.failure())
    reader.fail("type", "is required");
  if (!reader.failure() && type != "text")
    reader.fail(unsupported("response_format", "response_format: only {\"type\": \"text\"} is offered"));
  if (reader.failure()) outer.fail(*reader.failure());
}

} // namespace paceline::wire
