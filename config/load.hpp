#pragma once

#include "config/daemon_config.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::config {

/// Names and values of environment variables: those that `${NAME}` in the file may use, and those that
/// override options (PACELINE_SERVER_PORT overrides server.port).
using environment = std::map<std::string, std::string, std::less<>>;
/// The process's own.
environment process_environment();

/// One option set on the command line: path ("server.port", "models.0.path") and value, as the file would
/// spell it. An element of a list that is not there yet is made if it is the next one.
using assignment = std::pair<std::string, std::string>;
/// Splits "server.port=8080"; none if there is no '='.
std::optional<assignment> parse_assignment(std::string_view text);

/// Where an effective value came from: "default", "FILE:LINE:COLUMN", "environment PACELINE_SERVER_PORT" or
/// "command line".
struct setting {
  std::string path;
  std::string value; ///< as the file would spell it
  std::string origin;
  bool reloadable = false;
};

/// Outcome of `load`. With errors, `config` is incomplete and must not be used.
struct load_result {
  daemon_config config;
  std::vector<setting>
      settings; ///< every option of every model and drafter, in table order; none with errors
  std::vector<std::string> errors;   ///< each a full sentence: place, path, rule, allowed values
  std::vector<std::string> warnings; ///< variables that look like overrides and name no option

  bool ok() const noexcept { return errors.empty(); }
};

/// Errors that are listed; of the others their number is said.
inline constexpr std::size_t max_errors = 50;
/// Largest configuration file read.
inline constexpr std::uint64_t max_file_bytes = 1024 * 1024;

/// Defaults, then the file, then PACELINE_* variables, then `overrides`; the later wins. Without a path there
/// is no file and no `version` to check. All errors are collected.
load_result load(const std::optional<std::string>& path, const environment& variables,
                 const std::vector<assignment>& overrides);
/// The same with the file's text at hand; `name` stands for it in messages.
load_result load_text(std::string_view text, std::string_view name, const environment& variables,
                      const std::vector<assignment>& overrides);

/// The effective configuration as a file that `load` reads to the same values, each with its origin as a
/// comment.
std::string print(const load_result& result);

/// Paths that differ between two results, as (path, reloadable): what a reload changes or would need a
/// restart for.
std::vector<std::pair<std::string, bool>> changed(const load_result& before, const load_result& after);

} // namespace paceline::config
