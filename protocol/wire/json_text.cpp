#include "protocol/wire/json_text.hpp"

#include "protocol/wire/json_writer.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

namespace paceline::wire {

namespace json = boost::json;

namespace {

std::string_view view(json::string_view text) { return {text.data(), text.size()}; }

void write(json_writer& out, const json::value& value);

void write(json_writer& out, const json::object& fields) {
  out.begin_object();
  for (const auto& [name, value] : fields) {
    out.key(view(name));
    write(out, value);
  }
  out.end_object();
}

void write(json_writer& out, const json::value& value) {
  switch (value.kind()) {
  case json::kind::object:
    return write(out, value.get_object());
  case json::kind::array:
    out.begin_array();
    for (const auto& element : value.get_array()) write(out, element);
    out.end_array();
    return;
  case json::kind::string:
    out.value(view(value.get_string()));
    return;
  case json::kind::double_:
    out.value(value.get_double());
    return;
  case json::kind::int64:
    out.value(value.get_int64());
    return;
  case json::kind::uint64:
    out.value(value.get_uint64());
    return;
  case json::kind::bool_:
    out.value(value.get_bool());
    return;
  case json::kind::null:
    out.null();
    return;
  }
}

} // namespace

std::string json_text(const json::object& value) {
  json_writer out;
  write(out, value);
  return out.take();
}

std::string json_text(const json::value& value) {
  json_writer out;
  write(out, value);
  return out.take();
}

} // namespace paceline::wire
