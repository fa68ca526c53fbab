#include "protocol/wire/reasoning_fields.hpp"

#include "protocol/wire/chat_prompt.hpp"
#include "protocol/wire/field_reader.hpp"
#include "protocol/wire/fields/field_table.hpp"
#include "protocol/wire/unsupported_fields.hpp"

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

void read_template_arguments(field_reader& outer, chat_prompt& prompt, effort_wish& effort) {
  outer.boolean(spec("add_generation_prompt"), prompt.add_generation_prompt);
  bool thinking = false;
  if (outer.boolean(spec("enable_thinking"), thinking)) prompt.enable_thinking = thinking;
  const auto fields = outer.object(spec("chat_template_kwargs"));
  if (!fields) return read_effort(outer, spec("reasoning_effort"), effort);
  field_reader reader(*fields, outer.path_of("chat_template_kwargs"));
  const auto& own = spec("chat_template_kwargs.enable_thinking");
  const auto& alias = spec("chat_template_kwargs.thinking");
  if (reader.boolean(own, thinking) || reader.boolean(alias, thinking)) prompt.enable_thinking = thinking;
  read_effort(reader, spec("chat_template_kwargs.reasoning_effort"), effort);
  reader.accept(own);
  reader.accept(alias);
  for (const auto& name : reader.ignored())
    reader.fail(unsupported(name, name + ": only enable_thinking, thinking and reasoning_effort may be set"));
  if (reader.failure()) return outer.fail(*reader.failure());
  read_effort(outer, spec("reasoning_effort"), effort);
}

} // namespace paceline::wire
