#pragma once

#include "config/daemon_config.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline::config {

/// How an option's value is written.
enum class value_type : std::uint8_t {
  boolean, ///< true or false
  integer, ///< decimal, not negative
  number,  ///< decimal, with or without fraction and exponent
  text,
  choice,   ///< one of a few words
  duration, ///< 250ms, 30s, 5m, 2h
  size,     ///< 512MiB, 4KiB, 1GiB, 100B, 0
  text_list,
};

/// A value of any type. Integers and sizes (bytes) are the uint64.
using value = std::variant<bool, std::uint64_t, double, std::string, std::chrono::milliseconds,
                           std::vector<std::string>>;

/// One option, declared once: from it come parser, messages, documentation, schema and printing.
struct option {
  std::string_view path; ///< within its group: "server.port", "kv.block_size"
  value_type type = value_type::text;
  /// Of integers, numbers, sizes (bytes) and durations (milliseconds); both ends allowed.
  std::uint64_t lowest = 0;
  std::uint64_t highest = 0;
  std::vector<std::string_view> choices;
  std::string_view doc;    ///< one or two sentences
  bool reloadable = false; ///< taken over on SIGHUP; others need a restart

  /// Access to the member behind it; `object` is a daemon_config, model_options or drafter_options by the
  /// group.
  std::function<value(const void* object)> get;
  std::function<void(void* object, const value& v)> set;
};

/// The options of one kind of object.
struct option_group {
  std::string_view list;  ///< key of the list its objects stand in ("models"); empty for the root
  std::size_t most;       ///< objects in that list: each costs all its options
  std::string_view title; ///< for the documentation
  std::vector<option> options;
  const option_group* elements = nullptr; ///< group of the objects in this one's list, if it has one
  std::function<value(std::string_view path)> initial; ///< default of an option
  /// The objects in `object`'s list, and a new one at its end.
  std::function<std::vector<void*>(void* object)> list_of;
  std::function<void*(void* object)> append;

  const option* find(std::string_view path) const;
  /// True if `path` names a map of options.
  bool is_section(std::string_view path) const;
  /// What may follow `section` ("" or "server"): names of options, sections and the list.
  std::vector<std::string> names_in(std::string_view section) const;
};

/// Options of a daemon_config; its elements are models, and theirs drafters.
const option_group& root_options();

} // namespace paceline::config
