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
      if (row.state == field_state::without_effect && !row.is_told) reader.accept(row);
    }
}
} // namespace paceline::wire
