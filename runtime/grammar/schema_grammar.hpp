#pragma once

#include "runtime/base/expected.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::grammar {

/// A grammar in EBNF, with first rule "root", for JSON texts that obey `schema` (JSON Schema, draft 2020-12).
/// Every text that it allows obeys the schema; it does not allow all texts that do:
/// - Members come in the order in which the schema names them, and those that it does not name come last.
/// Members
///   that no schema forbids are allowed, as JSON Schema says; "additionalProperties": false forbids them.
/// - Between tokens there is nothing, one space, or a line break and up to 20 spaces or tabs.
/// - "format" is enforced. Some forms of dates, times, mail addresses, host names and URIs are left out.
/// - Of an array with "uniqueItems" and more than 6 values, the items come in the order of the schema.
/// - In a text of more than 128 characters an escape counts as the characters that spell it.
///
/// Errors name the place in the schema as a JSON pointer: errc::invalid_argument for what is no schema,
/// errc::unsupported for a keyword that this code cannot enforce, and for schemas whose grammar is too large.
/// `num_steps`, if not null: the work that it took, in steps of at most microseconds. Above 200,000 the
/// schema is refused.
expected<std::string> schema_to_ebnf(std::string_view schema, std::size_t* num_steps = nullptr);

} // namespace paceline::grammar
