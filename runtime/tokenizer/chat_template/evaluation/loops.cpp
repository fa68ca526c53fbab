#include "runtime/tokenizer/chat_template/evaluation/loops.hpp"

#include "runtime/tokenizer/chat_template/python/methods.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"

#include <algorithm>

namespace paceline::tokenizer::jinja {

namespace {

value cycle(runtime&, const value& self, const call_arguments& arguments) {
  if (!arguments.named.empty()) fail("cycle() got an unexpected keyword argument");
  if (arguments.positional.empty()) fail("no items for cycling given");
  const auto& loop = self.as<loop_object>();
  const auto count = static_cast<wide_int>(arguments.positional.size());
  const wide_int at = loop.index0 < 0 ? count - 1 : loop.index0 % count;
  return arguments.positional[static_cast<std::size_t>(at)];
}

value changed(runtime& rt, const value& self, const call_arguments& arguments) {
  if (!arguments.named.empty()) fail("changed() got an unexpected keyword argument");
  auto& loop = self.as<loop_object>();
  const auto& now = arguments.positional;
  const bool same =
      loop.changed_once && now.size() == loop.last_changed.size() &&
      std::equal(now.begin(), now.end(), loop.last_changed.begin(),
                 [&](const value& a, const value& b) { return identical(rt, a, b) || equal(rt, a, b); });
  loop.changed_once = true;
  if (same) return value::of(false);
  loop.last_changed = now;
  return value::of(true);
}

} // namespace

bool loop_object::advance(runtime& rt) {
  const value* item = peek(rt);
  if (item == nullptr) return false;
  const value next = *item;
  ahead.pop_back();
  before = current;
  current = next;
  ++index0;
  return true;
}

const value* loop_object::peek(runtime&) {
  if (ahead.empty()) {
    value item;
    if (source == nullptr || !source->next(item)) return nullptr;
    ahead.push_back(item);
  }
  return &ahead.back();
}

wide_int loop_object::total(runtime& rt) {
  if (length) return *length;
  std::vector<value> rest;
  value item;
  while (source != nullptr && source->next(item)) {
    rt.memory.charge(sizeof(value));
    rest.push_back(item);
  }
  std::reverse(rest.begin(), rest.end());
  rest.insert(rest.end(), ahead.begin(), ahead.end());
  ahead = std::move(rest);
  length = static_cast<wide_int>(ahead.size()) + index0 + 1;
  return *length;
}

std::string loop_object::describe(runtime& rt) {
  return "<LoopContext " + integer_text(index0 + 1) + "/" + integer_text(total(rt)) + ">";
}

std::optional<value> loop_object::attribute(runtime& rt, std::string_view name) {
  const auto number = [](wide_int n) { return value::of_integer(n); };
  if (name == "index") return number(index0 + 1);
  if (name == "index0") return number(index0);
  if (name == "first") return value::of(index0 == 0);
  if (name == "last") return value::of(peek(rt) == nullptr);
  if (name == "length") return number(total(rt));
  if (name == "revindex") return number(total(rt) - index0);
  if (name == "revindex0") return number(total(rt) - index0 - 1);
  if (name == "depth") return number(depth0 + 1);
  if (name == "depth0") return number(depth0);
  if (name == "previtem") return index0 == 0 ? rt.memory.undefined("there is no previous item") : before;
  if (name == "nextitem") {
    const value* item = peek(rt);
    return item != nullptr ? *item : rt.memory.undefined("there is no next item");
  }
  if (name == "cycle") return bound_method(rt, value::of_object(value_type::loop, this), "cycle", cycle);
  if (name == "changed")
    return bound_method(rt, value::of_object(value_type::loop, this), "changed", changed);
  return std::nullopt;
}

} // namespace paceline::tokenizer::jinja
