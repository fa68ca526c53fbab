#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::config {

/// Where a value was written.
struct place {
  enum class kind : std::uint8_t { file, variable, command_line };

  kind source = kind::file;
  std::uint32_t line = 0;   ///< from 1, for a file
  std::uint32_t column = 0; ///< from 1
  std::string variable;     ///< name of an environment variable

  /// "daemon.yaml:3:7", "environment PACELINE_SERVER_PORT" or "command line".
  std::string text(std::string_view file_name) const;
};

struct entry;

/// A configuration before it is checked against the option table: maps, lists and unparsed scalars.
struct node {
  enum class kind : std::uint8_t { null, scalar, list, map };

  kind type = kind::null;
  config::place place;
  std::string text;           ///< content of a scalar, not parsed
  bool quoted = false;        ///< the scalar was quoted: a string even if it looks like a number
  std::vector<node> items;    ///< for a list
  std::vector<entry> entries; ///< for a map, in order; keys are distinct

  /// Value of `key`; null if this is not a map or has no such key.
  node* find(std::string_view key);
  const node* find(std::string_view key) const;
};

struct entry {
  std::string key;
  config::place place;
  node value;
};

/// "a map", "a list", "a text" or "nothing", for messages.
std::string_view describe(const node& n);

/// An error message: place, path of the option, and the violated rule.
std::string complain(const place& where, std::string_view file_name, std::string_view path,
                     std::string_view rule);

/// The one of `names` with the smallest edit distance to `name`, if it is small enough for a typing error;
/// else empty.
std::string_view nearest_name(std::string_view name, const std::vector<std::string>& names);

} // namespace paceline::config
