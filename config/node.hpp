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
  std::uint32_t line = 0;   ///< from 1; of a file
  std::uint32_t column = 0; ///< from 1
  std::string variable;     ///< name, of an environment variable

  /// "daemon.yaml:3:7", "environment PACELINE_SERVER_PORT" or "command line".
  std::string text(std::string_view file_name) const;
};

struct entry;

/// What a configuration says before it is known what it should say: maps, lists and the texts of scalars.
struct node {
  enum class kind : std::uint8_t { null, scalar, list, map };

  kind type = kind::null;
  config::place place;
  std::string text;           ///< of a scalar
  bool quoted = false;        ///< a text even if it looks like something else
  std::vector<node> items;    ///< of a list
  std::vector<entry> entries; ///< of a map, in order; keys are distinct

  /// Value of `key`; nullptr if this is no map or has no such key.
  node* find(std::string_view key);
  const node* find(std::string_view key) const;
};

struct entry {
  std::string key;
  config::place place;
  node value;
};

/// "a map", "a list", "a text", "nothing": for messages.
std::string_view describe(const node& n);

/// A complaint about a place.
std::string complain(const place& where, std::string_view file_name, std::string_view path,
                     std::string_view rule);

/// The one of `names` closest to `name` by edit distance, if it is close enough to be a slip; else empty.
std::string_view nearest_name(std::string_view name, const std::vector<std::string>& names);

} // namespace paceline::config
