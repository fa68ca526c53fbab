#include "protocol/wire/reasoning_fields.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"

namespace paceline::wire {

void read_reasoning_options(field_reader& reader, reasoning_options& out) {
  if (const auto format = reader.choice(spec("reasoning_format"))) out.split = *format != 2;
  reader.boolean(spec("separate_reasoning"), out.split);
  reader.boolean(spec("include_reasoning"), out.shown);
}

void read_effort(field_reader& reader, const field_spec& row, effort_wish& out) {
  if (const auto level = reader.choice(row))
    out = {reader.path_of(row.name), std::string(row.choices[*level])};
}

} // namespace paceline::wire
