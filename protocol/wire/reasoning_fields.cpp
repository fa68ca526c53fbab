#include "protocol/wire/reasoning_fields.hpp"

#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"

namespace paceline::wire {

void read_reasoning_options(field_reader& reader, reasoning_options& out) {
  if (const auto format = reader.choice(spec("reasoning_format"))) out.split = *format != 2;
  reader.boolean(spec("separate_reasoning"), out.split);
  reader.boolean(spec("include_reasoning"), out.shown);
}

} // namespace paceline::wire
