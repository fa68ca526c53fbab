#pragma once

#include "protocol/wire/json_view.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace paceline::wire {

/// A set of kinds of requests, one bit for each kind.
using request_kinds = std::uint8_t;

namespace in {
inline constexpr request_kinds completions = 1, chat = 2, responses = 4; ///< HTTP bodies that generate
inline constexpr request_kinds frames = 8;                               ///< frames of a WebSocket client
inline constexpr request_kinds tokenize = 16, detokenize = 32;
inline constexpr request_kinds messages = 64, count_tokens = 128; ///< Anthropic's form of a chat
inline constexpr request_kinds all_responses = responses | frames;
inline constexpr request_kinds all_messages = messages | count_tokens;
inline constexpr request_kinds whole_texts = completions | chat;
inline constexpr request_kinds openai = whole_texts | all_responses; ///< OpenAI's forms that generate
inline constexpr request_kinds generating = openai | all_messages;
inline constexpr request_kinds conversations = chat | tokenize; ///< those with OpenAI's `messages`
inline constexpr request_kinds any = 0xff;
} // namespace in

/// Limits of one client request that do not depend on a model.
struct request_limits {
  std::size_t max_body_bytes = 8U << 20U;
  std::size_t max_json_depth = 32;
  std::uint32_t max_choices = 128;   ///< largest n
  std::uint32_t max_sequences = 256; ///< n times the number of prompts
  std::uint32_t max_messages = 4096;
};

/// Range of a floating-point field, checked after the conversion to float.
struct float_range {
  float min = 0;
  float max = 0;
  bool min_excluded = false;
};

/// The type of a field's value. Null counts as absent for all of them.
enum class field_type : std::uint8_t {
  boolean,
  integer,     ///< `least` to `most`
  number,      ///< `range`
  text,        ///< a string of `least` to `most` bytes; one of `choices`, if any
  object,      ///< its fields are the rows whose `field_spec::object` is this row's path
  object_list, ///< `least` to `most` objects; their fields are the rows whose `object` is the path and "[]"
  text_or_objects, ///< a string, or as object_list; `most` 0: of any length
  text_or_list,    ///< a string, or a list of `least` to `most` strings, each of at most `most_bytes` bytes
  text_list,       ///< `least` to `most` strings, each of at most `most_bytes` bytes
  choice_list,     ///< `least` to `most` of `choices`
  id_list,         ///< `least` to `most` token ids
  number_map,      ///< an object: the keys are token ids, the values numbers in `range`
  other,           ///< described by `field_spec::schema`
};

/// What the server does with a field.
enum class field_state : std::uint8_t {
  supported,
  without_effect, ///< accepted with any value, because no value would change the answer
  refused,        ///< accepted with the values that `neutral` names, and refused with any other
};

/// Which values of a refused field are accepted, because they ask for nothing.
enum class neutral_value : std::uint8_t {
  none,
  is_true,
  is_false,
  zero,
  not_positive,
  at_least_one,
  at_most_one,
  empty, ///< an empty string, list or object
  medium,
  calls_no_function, ///< "none" or "auto"
};

/// One field of the API, declared once as a row of the table. The parsers take their bounds from the row, and
/// the tables of docs/protocol.md and the OpenAPI document are generated from it.
struct field_spec {
  /// Path of the object that has the field: "" for the request itself, "messages[]", ...
  std::string_view object;
  std::string_view name;
  request_kinds where = 0;
  field_type type = field_type::boolean;
  field_state state = field_state::supported;
  bool required = false;
  std::string_view unless = {}; ///< another field of the object: one of the two is required
  bool is_closed = false;       ///< for objects: members without a row are refused instead of ignored
  bool is_told = false;   ///< without effect, but listed as ignored, because other servers give it an effect
  std::int64_t least = 0; ///< smallest integer, number of bytes of a string, or number of elements of a list
  std::int64_t most = 0;
  std::int64_t most_bytes = 0; ///< for each string of a list
  float_range range = {};
  std::span<const std::string_view> choices = {};
  std::string_view schema = {};  ///< for field_type::other: JSON Schema of the value
  std::string_view allowed = {}; ///< allowed values in words, if they do not follow from type and bounds
  std::string_view initial = {}; ///< default, as JSON or in words; empty: none
  neutral_value neutral = neutral_value::none;
  /// For refused fields: JSON of a value that is accepted; empty: no value is accepted.
  std::string_view neutral_text = {};
  std::string_view doc = {}; ///< description; for refused fields the reason
};

/// Rows of fields that belong together, with a title for the documentation.
struct field_group {
  std::string_view title;
  std::span<const field_spec> rows;
};

/// Upper bound for strings that are limited only by the size of the body.
inline constexpr std::int64_t max_text_bytes = 1LL << 30;
/// Upper bound of integers without a smaller one, and of token ids.
inline constexpr std::int64_t max_int32 = 2147483647;

/// True if `value` is one of the values that `neutral` names.
bool is_neutral(neutral_value neutral, json_view value);

// Functions that make rows.
namespace rows {

consteval field_spec row(std::string_view path, request_kinds where, field_type type, std::string_view doc) {
  const auto dot = path.rfind('.');
  field_spec made;
  made.object = dot == std::string_view::npos ? "" : path.substr(0, dot);
  made.name = dot == std::string_view::npos ? path : path.substr(dot + 1);
  made.where = where;
  made.type = type;
  made.doc = doc;
  return made;
}

consteval field_spec boolean(std::string_view path, request_kinds where, std::string_view initial,
                             std::string_view doc) {
  auto made = row(path, where, field_type::boolean, doc);
  made.initial = initial;
  return made;
}

consteval field_spec bounded(field_type type, std::string_view path, request_kinds where, std::int64_t least,
                             std::int64_t most, std::string_view initial, std::string_view doc) {
  auto made = row(path, where, type, doc);
  made.least = least;
  made.most = most;
  made.initial = initial;
  return made;
}

consteval field_spec integer(std::string_view path, request_kinds where, std::int64_t least,
                             std::int64_t most, std::string_view initial, std::string_view doc) {
  return bounded(field_type::integer, path, where, least, most, initial, doc);
}

/// A string of `least` to `most` bytes.
consteval field_spec text(std::string_view path, request_kinds where, std::int64_t least, std::int64_t most,
                          std::string_view initial, std::string_view doc) {
  return bounded(field_type::text, path, where, least, most, initial, doc);
}

consteval field_spec number(std::string_view path, request_kinds where, float_range range,
                            std::string_view initial, std::string_view doc) {
  auto made = row(path, where, field_type::number, doc);
  made.range = range;
  made.initial = initial;
  return made;
}

consteval field_spec choice(std::string_view path, request_kinds where,
                            std::span<const std::string_view> choices, std::string_view initial,
                            std::string_view doc) {
  auto made = bounded(field_type::text, path, where, 1, 64, initial, doc);
  made.choices = choices;
  return made;
}

consteval field_spec object(std::string_view path, request_kinds where, std::string_view doc) {
  return row(path, where, field_type::object, doc);
}

consteval field_spec list(field_type type, std::string_view path, request_kinds where, std::int64_t least,
                          std::int64_t most, std::string_view doc) {
  return bounded(type, path, where, least, most, {}, doc);
}

consteval field_spec text_list(std::string_view path, request_kinds where, std::int64_t most,
                               std::int64_t most_bytes, std::string_view doc) {
  auto made = list(field_type::text_list, path, where, 0, most, doc);
  made.most_bytes = most_bytes;
  return made;
}

consteval field_spec choice_list(std::string_view path, request_kinds where, std::int64_t most,
                                 std::span<const std::string_view> choices, std::string_view doc) {
  auto made = list(field_type::choice_list, path, where, 0, most, doc);
  made.choices = choices;
  return made;
}

/// A field whose allowed values are given in words (`allowed`) and as a JSON Schema.
consteval field_spec other(std::string_view path, request_kinds where, std::string_view allowed,
                           std::string_view initial, std::string_view schema, std::string_view doc) {
  auto made = row(path, where, field_type::other, doc);
  made.allowed = allowed;
  made.initial = initial;
  made.schema = schema;
  return made;
}

consteval field_spec refused(std::string_view path, request_kinds where, neutral_value neutral,
                             std::string_view neutral_text, std::string_view why) {
  auto made = row(path, where, field_type::other, why);
  made.state = field_state::refused;
  made.neutral = neutral;
  made.neutral_text = neutral_text;
  return made;
}

consteval field_spec without_effect(std::string_view path, request_kinds where, std::string_view doc) {
  auto made = row(path, where, field_type::other, doc);
  made.state = field_state::without_effect;
  return made;
}

consteval field_spec told_as_ignored(field_spec made) {
  made.is_told = true;
  return made;
}

consteval field_spec required_unless(std::string_view other, field_spec made) {
  made.unless = other;
  return made;
}

consteval field_spec closed(field_spec made) {
  made.is_closed = true;
  return made;
}

consteval field_spec required(field_spec made) {
  made.required = true;
  return made;
}

} // namespace rows

} // namespace paceline::wire
