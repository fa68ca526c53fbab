#pragma once

#include "runtime/tokenizer/chat_template/python/failure.hpp"
#include "runtime/tokenizer/chat_template/python/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace paceline::tokenizer::jinja {

class runtime;

/// Anything that a value can point to. Owned by the heap of a rendering.
struct object {
  object() = default;
  object(const object&) = delete;
  object& operator=(const object&) = delete;
  virtual ~object() = default;
  /// The result of str() and repr(), for types whose values print as a description.
  virtual std::string describe(runtime&) { return "<object>"; }
  /// An attribute, for types that have attributes.
  virtual std::optional<value> attribute(runtime&, std::string_view) { return std::nullopt; }
};

/// A list or a tuple.
struct list_object final : object {
  std::vector<value> items;
  /// A tuple from filter groupby, whose two items are also its attributes `grouper` and `list`.
  bool is_group = false;
};

/// A dict: entries in order of insertion. A key is found by a linear scan in small dicts and by hash in large
/// ones.
struct dict_object final : object {
  using entry = std::pair<value, value>;

  const std::vector<entry>& entries() const noexcept { return entries_; }
  std::size_t size() const noexcept { return entries_.size(); }
  /// Fails for keys that are not hashable in Python.
  const value* find(runtime& rt, const value& key) const;
  const value* find(runtime& rt, std::string_view key) const { return find(rt, value::of_text(key)); }
  void set(runtime& rt, const value& key, const value& item);
  bool erase(runtime& rt, const value& key);
  void clear();

 private:
  std::size_t position(runtime& rt, const value& key) const;
  void index_all(runtime& rt);

  std::vector<entry> entries_;
  std::unordered_multimap<std::size_t, std::size_t> index_; ///< hash -> position; used for large dicts
};

struct dict_view_object final : object {
  enum class part : std::uint8_t { keys, values, items };
  dict_object* dict = nullptr;
  part shows = part::keys;
};

struct range_object final : object {
  wide_int start = 0, stop = 0, step = 1;
  wide_int size() const noexcept {
    if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
    return start > stop ? (start - stop - 1) / -step + 1 : 0;
  }
};

/// A generator whose items were computed when it was created. An error that occurred in this computation is
/// raised when the consumer reaches that item, as with Python's lazy generators.
struct iterator_object final : object {
  std::string_view type_name = "generator";
  std::vector<value> items;
  std::size_t position = 0;
  std::optional<failure> pending;
  std::string describe(runtime&) override { return "<" + std::string(type_name) + " object>"; }
};

struct namespace_object final : object {
  dict_object* attributes = nullptr;
};

struct cycler_object final : object {
  list_object* items = nullptr;
  std::size_t position = 0;
  std::string describe(runtime&) override { return "<jinja2.utils.Cycler object>"; }
  std::optional<value> attribute(runtime& rt, std::string_view name) override;
};

struct joiner_object final : object {
  value separator;
  bool used = false;
  std::string describe(runtime&) override { return "<jinja2.utils.Joiner object>"; }
  std::optional<value> attribute(runtime& rt, std::string_view name) override;
};

/// Arguments of a call, filter or test as given: positional ones, then named ones in order.
struct call_arguments {
  std::vector<value> positional;
  std::vector<std::pair<std::string_view, value>> named;
};

using native_function = value (*)(runtime&, const call_arguments&);
using native_method = value (*)(runtime&, const value& self, const call_arguments&);

struct function_object final : object {
  std::string_view name;
  native_function call = nullptr;
  std::string describe(runtime&) override { return "<function " + std::string(name) + ">"; }
};

struct method_object final : object {
  std::string_view name;
  value self;
  native_method call = nullptr;
  std::string describe(runtime&) override { return "<built-in method " + std::string(name) + ">"; }
};

} // namespace paceline::tokenizer::jinja
