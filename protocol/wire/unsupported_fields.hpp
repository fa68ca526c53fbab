#pragma once

#include "protocol/wire/json_view.hpp"

#include <span>
#include <string_view>

namespace paceline::wire {

class field_reader;

/// A field of other servers that this one does not offer. Clients send the defaults of the server they were
/// written for, so a value without effect passes; any other would change the answer and is refused by name.
struct unsupported_field {
  std::string_view name;
  bool (*has_no_effect)(json_view);
  std::string_view neutral; ///< the value that passes, for messages; empty if none does
  std::string_view why;
};

void refuse_unsupported(field_reader& reader, std::span<const unsupported_field> fields);

/// The fields of all generating endpoints.
void refuse_unsupported_generation(field_reader& reader);
/// Those of /v1/completions.
void refuse_unsupported_completion(field_reader& reader);
/// Those of /v1/chat/completions.
void refuse_unsupported_chat(field_reader& reader);

/// `response_format`: only text is offered.
void read_response_format(field_reader& reader);

} // namespace paceline::wire
