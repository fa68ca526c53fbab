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

/// The type of an option's value in the file.
enum class value_type : std::uint8_t {
  boolean, ///< true or false
  integer, ///< decimal, not negative
  number,  ///< decimal, with or without fraction and exponent
  text,
  choice,   ///< one of several words
  duration, ///< 250ms, 30s, 5m, 2h
  size,     ///< 512MiB, 4KiB, 1GiB, 100B, 0
  text_list,
};

/// A value of any type. Integers and sizes (bytes) are stored as uint64.
using value = std::variant<bool, std::uint64_t, double, std::string, std::chrono::milliseconds,
                           std::vector<std::string>>;

/// One option, declared once. Parser, messages, documentation, schema and printing are derived from it.
struct option {
  std::string_view path; ///< within its group: "server.port", "kv.block_size"
  value_type type = value_type::text;
  /// For integers, numbers, sizes (bytes) and durations (milliseconds); both ends are allowed.
  std::uint64_t lowest = 0;
  std::uint64_t highest = 0;
  std::vector<std::string_view> choices;
  std::string_view doc;    ///< one or two sentences
  bool reloadable = false; ///< applied on SIGHUP; other options need a restart

  /// Read and write the member that stores the option. `object` is a daemon_config, model_options or
  /// drafter_options, depending on the group.
  std::function<value(const void* object)> get;
  std::function<void(void* object, const value& v)> set;
};

/// The options of one kind of object.
struct option_group {
  std::string_view list;  ///< key of the list that contains its objects ("models"); empty for the root
  std::size_t most;       ///< largest number of objects in that list
  std::string_view title; ///< for the documentation
  std::vector<option> options;
  const option_group* elements = nullptr; ///< group of the objects in this group's list, if it has one
  std::function<value(std::string_view path)> initial; ///< default of the option at `path`, which must exist
  /// `list_of` returns the objects in `object`'s list; `append` adds one and returns it.
  std::function<std::vector<void*>(void* object)> list_of;
  std::function<void*(void* object)> append;

  /// The option at `path` within the group; null if there is none.
  const option* find(std::string_view path) const;
  /// True if `path` names a section of options.
  bool is_section(std::string_view path) const;
  /// Names that may follow `section` ("" or "server"): options, sections and the list.
  std::vector<std::string> names_in(std::string_view section) const;
};

/// The options of a daemon_config. The `elements` of this group are the group of a model's options; the
/// `elements` of the model's group are the group of a drafter's options.
const option_group& root_options();

} // namespace paceline::config
