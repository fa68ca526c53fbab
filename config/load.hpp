#pragma once

#include "config/daemon_config.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::config {

/// Environment variables, by name. `${NAME}` in the file may refer to them, and variables that begin with
/// PACELINE_ override options (PACELINE_SERVER_PORT overrides server.port).
using environment = std::map<std::string, std::string, std::less<>>;
/// The environment of this process.
environment process_environment();

/// An option set on the command line: path ("server.port", "models.0.path") and value, spelled as in the
/// file. The index of a list may be one past its last element, which adds an element.
using assignment = std::pair<std::string, std::string>;
/// Splits "server.port=8080"; nullopt if there is no '='.
std::optional<assignment> parse_assignment(std::string_view text);

/// An option's effective value. `origin` is "default", "FILE:LINE:COLUMN", "environment
/// PACELINE_SERVER_PORT" or "command line".
struct setting {
  std::string path;
  std::string value; ///< spelled as in the file
  std::string origin;
  bool reloadable = false;
};

/// Result of `load`. If there are errors, `config` is incomplete and must not be used.
struct load_result {
  daemon_config config;
  /// All options, including those of every model and drafter, in table order. Empty if there are errors.
  std::vector<setting> settings;
  std::vector<std::string> errors;   ///< each a full sentence: place, path, rule, allowed values
  std::vector<std::string> warnings; ///< variables that look like overrides but name no option

  bool ok() const noexcept { return errors.empty(); }
};

/// Largest number of errors listed. If there are more, only their number is reported.
inline constexpr std::size_t max_errors = 50;
/// Largest configuration file read.
inline constexpr std::uint64_t max_file_bytes = 1024 * 1024;

/// Applies the defaults, then the file, then PACELINE_* variables, then `overrides`; later values win.
/// Without a path there is no file and no `version` to check. Collects all errors.
load_result load(const std::optional<std::string>& path, const environment& variables,
                 const std::vector<assignment>& overrides);
/// Like `load`, for the text of a file; `name` is the file's name in messages.
load_result load_text(std::string_view text, std::string_view name, const environment& variables,
                      const std::vector<assignment>& overrides);

/// The effective configuration as a file from which `load` gets the same values, with the origin of each
/// value as a comment.
std::string print(const load_result& result);

/// The paths whose values differ in two results, as (path, reloadable). A reload applies the reloadable ones;
/// the others need a restart.
std::vector<std::pair<std::string, bool>> changed(const load_result& before, const load_result& after);

} // namespace paceline::config
