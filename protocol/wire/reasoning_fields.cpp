#include "protocol/wire/reasoning_fields.hpp"

#include "protocol/wire/field_reader.hpp"

namespace paceline::wire {

void read_reasoning_options(field_reader& reader, reasoning_options& out) {
  if (const auto format = reader.choice("reasoning_format", {"auto", "deepseek", "none"}))
    out.split = *format != 2;
  reader.boolean("separate_reasoning", out.split);
  reader.boolean("include_reasoning", out.shown);
}

} // namespace paceline::wire
