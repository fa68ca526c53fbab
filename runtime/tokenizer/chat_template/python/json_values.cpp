#include "runtime/tokenizer/chat_template/python/json_values.hpp"

#include <boost/json/array.hpp>

namespace paceline::tokenizer::jinja {

value value_of(runtime& rt, const boost::json::object& json) {
  const nesting_guard guard(rt);
  auto& made = rt.memory.make<dict_object>();
  for (const auto& entry : json)
    made.set(rt, value::of_text({entry.key().data(), entry.key().size()}), value_of(rt, entry.value()));
  return rt.memory.dict(made);
}

value value_of(runtime& rt, const boost::json::value& json) {
  switch (json.kind()) {
  case boost::json::kind::null:
    return value::none();
  case boost::json::kind::bool_:
    return value::of(json.get_bool());
  case boost::json::kind::int64:
    return value::of_integer(json.get_int64());
  case boost::json::kind::uint64:
    return value::of_integer(static_cast<wide_int>(json.get_uint64()));
  case boost::json::kind::double_:
    return value::of_real(json.get_double());
  case boost::json::kind::string:
    return value::of_text({json.get_string().data(), json.get_string().size()});
  case boost::json::kind::object:
    return value_of(rt, json.get_object());
  case boost::json::kind::array:
    break;
  }
  const nesting_guard guard(rt);
  std::vector<value> items;
  items.reserve(json.get_array().size());
  for (const auto& item : json.get_array()) items.push_back(value_of(rt, item));
  return rt.memory.list(std::move(items));
}

} // namespace paceline::tokenizer::jinja
