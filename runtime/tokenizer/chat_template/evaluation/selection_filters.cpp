#include "runtime/tokenizer/chat_template/evaluation/attribute_path.hpp"
#include "runtime/tokenizer/chat_template/evaluation/filters.hpp"
#include "runtime/tokenizer/chat_template/evaluation/tests.hpp"
#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/iteration.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"

/// Filters that are generators in Python: their result can be iterated once and is always true.
namespace paceline::tokenizer::jinja {

namespace {

/// Runs `produce(items)`; an error ends the items and is raised when the consumer reaches it.
template <class Produce>
value generated(runtime& rt, Produce produce) {
  const value made = rt.memory.iterator({});
  auto& iterator = made.as<iterator_object>();
  const auto emit = [&](const value& item) {
    rt.memory.charge(sizeof(value));
    iterator.items.push_back(item);
  };
  try {
    produce(emit);
  } catch (const failure& met) {
    if (met.code != errc::invalid_argument) throw; // limits apply at once
    iterator.pending = met;
  }
  return made;
}

value call_filter(runtime& rt, const value& name, const value& operand, const call_arguments& arguments) {
  const filter_entry* filter = name.is_string() ? find_filter(name.text()) : nullptr;
  if (filter == nullptr)
    fail("No filter named '" + std::string(name.is_string() ? name.text() : type_name(name)) + "'.");
  return filter->call(rt, operand, arguments);
}

bool call_test(runtime& rt, const value& name, const value& operand, const call_arguments& arguments) {
  const test_entry* test = name.is_string() ? find_test(name.text()) : nullptr;
  if (test == nullptr)
    fail("No test named '" + std::string(name.is_string() ? name.text() : type_name(name)) + "'.");
  return test->call(rt, operand, arguments);
}

call_arguments without_first(const call_arguments& arguments, std::size_t count) {
  return {{arguments.positional.begin() + static_cast<std::ptrdiff_t>(count), arguments.positional.end()},
          arguments.named};
}

value map_attribute(runtime& rt, const value& v, const call_arguments& arguments) {
  return generated(rt, [&](const auto& emit) {
    value attribute, fallback = value::none();
    for (const auto& [name, item] : arguments.named) {
      if (name == "attribute")
        attribute = item;
      else if (name == "default")
        fallback = item;
      else
        fail("Unexpected keyword argument '" + std::string(name) + "'");
    }
    const attribute_path path(rt, attribute);
    value item;
    for (cursor walk(rt, v); walk.next(rt, item);) emit(path.walk(rt, item, fallback));
  });
}

bool names_attribute(const call_arguments& arguments) {
  for (const auto& [name, item] : arguments.named)
    if (name == "attribute") return arguments.positional.empty();
  return false;
}

value map(runtime& rt, const value& v, const call_arguments& arguments) {
  if (!truth(rt, v)) return rt.memory.iterator({});
  if (names_attribute(arguments)) return map_attribute(rt, v, arguments);
  return generated(rt, [&](const auto& emit) {
    if (arguments.positional.empty()) fail("map requires a filter argument");
    const call_arguments rest = without_first(arguments, 1);
    value item;
    for (cursor walk(rt, v); walk.next(rt, item);) emit(call_filter(rt, arguments.positional[0], item, rest));
  });
}

/// select, reject, selectattr, rejectattr.
template <bool wanted, bool by_attribute>
value select(runtime& rt, const value& v, const call_arguments& arguments) {
  if (!truth(rt, v)) return rt.memory.iterator({});
  return generated(rt, [&](const auto& emit) {
    constexpr std::size_t num_leading = by_attribute ? 1 : 0;
    if (arguments.positional.size() < num_leading) fail("Missing parameter for attribute name");
    const attribute_path path(rt, by_attribute ? arguments.positional[0] : value::none());
    const bool has_test = arguments.positional.size() > num_leading;
    const call_arguments rest = has_test ? without_first(arguments, num_leading + 1) : call_arguments{};
    value item;
    for (cursor walk(rt, v); walk.next(rt, item);) {
      const value asked = path.walk(rt, item);
      const bool passes =
          has_test ? call_test(rt, arguments.positional[num_leading], asked, rest) : truth(rt, asked);
      if (passes == wanted) emit(item);
    }
  });
}

value unique(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("unique", arguments, {"case_sensitive", "attribute"});
  return generated(rt, [&](const auto& emit) {
    const attribute_path path(rt, bound.get(1, value::none()));
    auto& seen = rt.memory.make<dict_object>();
    value item;
    for (cursor walk(rt, v); walk.next(rt, item);) {
      const value key = case_key(rt, path.walk(rt, item), bound.flag(rt, 0));
      if (seen.find(rt, key) != nullptr) continue;
      seen.set(rt, key, value::none());
      emit(item);
    }
  });
}

value items(runtime& rt, const value& v, const call_arguments& arguments) {
  (void)bind("items", arguments, {});
  return generated(rt, [&](const auto& emit) {
    if (v.is_undefined()) return;
    if (!v.is(value_type::dict)) fail("Can only get item pairs from a mapping.");
    for (const auto& [key, item] : v.as<dict_object>().entries()) emit(rt.memory.pair(key, item));
  });
}

void fill(runtime& rt, std::vector<value>& row, wide_int length, const value& filler) {
  while (static_cast<wide_int>(row.size()) < length) {
    rt.memory.charge(sizeof(value));
    row.push_back(filler);
  }
}

value batch(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("batch", arguments, {"linecount", "fill_with"}, 1);
  return generated(rt, [&](const auto& emit) {
    std::vector<value> row;
    value item;
    for (cursor walk(rt, v); walk.next(rt, item);) {
      if (equal(rt, value::of_integer(static_cast<wide_int>(row.size())), bound[0])) {
        emit(rt.memory.list(std::move(row)));
        row = {};
      }
      rt.memory.charge(sizeof(value));
      row.push_back(item);
    }
    if (row.empty()) return;
    if (bound.has(1)) fill(rt, row, bound.integer(rt, 0), bound[1]);
    emit(rt.memory.list(std::move(row)));
  });
}

value slice(runtime& rt, const value& v, const call_arguments& arguments) {
  const auto bound = bind("slice", arguments, {"slices", "fill_with"}, 1);
  return generated(rt, [&](const auto& emit) {
    const auto all = collect(rt, v);
    const wide_int num_slices = bound.integer(rt, 0);
    if (num_slices == 0) fail("division by zero");
    const auto count = static_cast<wide_int>(all.size());
    for (wide_int number = 0, start = 0; number < num_slices; ++number) {
      const bool extra = number < count % num_slices;
      const wide_int end = start + count / num_slices + (extra ? 1 : 0);
      std::vector<value> row(all.begin() + static_cast<std::ptrdiff_t>(start),
                             all.begin() + static_cast<std::ptrdiff_t>(end));
      if (bound.has(1) && !extra) row.push_back(bound[1]);
      rt.memory.step();
      emit(rt.memory.list(std::move(row)));
      start = end;
    }
  });
}

constexpr filter_entry selection_entries[] = {
    {"map", map},
    {"select", select<true, false>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<false, true>},
    {"unique", unique},
    {"items", items},
    {"batch", batch},
    {"slice", slice},
};

} // namespace

std::span<const filter_entry> selection_filters() { return selection_entries; }

} // namespace paceline::tokenizer::jinja
