#include "config/load.hpp"

#include "config/apply.hpp"
#include "config/expansion.hpp"
#include "config/overrides.hpp"
#include "config/scalar.hpp"
#include "config/validate.hpp"
#include "config/yaml_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <unistd.h>
#include <unordered_map>

namespace paceline::config {

namespace {

/// Removes `version` from the map. A file must say 1.
void check_version(node& root, std::string_view file_name, std::vector<std::string>& errors) {
  const auto found = std::ranges::find(root.entries, "version", &entry::key);
  if (found == root.entries.end()) {
    errors.push_back(
        complain(root.place, file_name, "version", "a configuration file begins with 'version: 1'"));
    return;
  }
  const auto& v = found->value;
  if (v.type != node::kind::scalar || v.quoted || v.text != "1")
    errors.push_back(complain(v.place, file_name, "version", "must be 1, the only version there is"));
  root.entries.erase(found);
}

void list_settings(const option_group& group, void* object, const std::string& base, const origins& from,
                   std::string_view file_name, std::vector<setting>& out) {
  for (const auto& o : group.options) {
    auto path = base + std::string(o.path);
    const auto place = from.find(path);
    const auto v = o.get(object);
    const auto* text = std::get_if<std::string>(&v);
    out.push_back({std::move(path), text ? quote(*text) : spell(o, v),
                   place == from.end() ? "default" : place->second.text(file_name), o.reloadable});
  }
  if (group.elements == nullptr) return;
  std::size_t i = 0;
  for (auto* element : group.list_of(object))
    list_settings(*group.elements, element,
                  base + std::string(group.elements->list) + '.' + std::to_string(i++) + '.', from, file_name,
                  out);
}

/// Keeps the first errors and states the number of the others.
void shorten(std::vector<std::string>& errors, std::string_view name) {
  if (errors.size() <= max_errors) return;
  const auto rest = errors.size() - max_errors;
  errors.resize(max_errors);
  errors.push_back(std::string(name) + ": and " + std::to_string(rest) + " more errors");
}

/// `is_expanded`: all variables in the file's values were found.
load_result evaluate(node root, std::string_view name, const environment& variables,
                     const std::vector<assignment>& overrides, bool is_expanded, load_result result) {
  if (root.type == node::kind::null) root.type = node::kind::map;
  const auto num_errors = result.errors.size();
  overlay_variables(root, variables, result.errors, result.warnings);
  overlay_assignments(root, overrides, result.errors);
  const bool is_complete = is_expanded && result.errors.size() == num_errors;
  origins from;
  const auto wrong_sections = apply(root, name, result.config, from, result.errors);
  if (is_complete) validate(result.config, name, from, wrong_sections, result.errors);
  if (result.errors.empty()) list_settings(root_options(), &result.config, {}, from, name, result.settings);
  shorten(result.errors, name);
  return result;
}

/// The text of the file. At most `max_file_bytes` are read.
expected<std::string> read_file(const std::string& path) {
  const auto bad = [&path](const std::string& rule) { return error(errc::invalid_file, path + ": " + rule); };
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return bad(std::string("cannot be opened: ") + std::strerror(errno));
  std::string text(max_file_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return bad("cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > max_file_bytes) return bad("is larger than 1 MiB");
  return text;
}

} // namespace

environment process_environment() {
  environment all;
  for (auto** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    if (auto pair = parse_assignment(*variable)) all.insert(*std::move(pair));
  return all;
}

std::optional<assignment> parse_assignment(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  return assignment{text.substr(0, equals), text.substr(equals + 1)};
}

load_result load_text(std::string_view text, std::string_view name, const environment& variables,
                      const std::vector<assignment>& overrides) {
  load_result result;
  if (text.size() > max_file_bytes) {
    result.errors.push_back(std::string(name) + ": is larger than 1 MiB");
    return result;
  }
  auto root = read_yaml(text, name, result.errors);
  if (!result.errors.empty()) {
    shorten(result.errors, name);
    return result;
  }
  if (root.place.line == 0) root.place.line = root.place.column = 1;
  if (root.type != node::kind::map) {
    result.errors.push_back(
        complain(root.place, name, {}, "a configuration is a map that begins with 'version: 1'"));
    return result;
  }
  expand_all(root, name, variables, result.errors);
  const bool is_expanded = result.errors.empty();
  check_version(root, name, result.errors);
  return evaluate(std::move(root), name, variables, overrides, is_expanded, std::move(result));
}

load_result load(const std::optional<std::string>& path, const environment& variables,
                 const std::vector<assignment>& overrides) {
  if (!path) return evaluate({}, "configuration", variables, overrides, true, {});
  const auto text = read_file(*path);
  if (text) return load_text(*text, *path, variables, overrides);
  load_result result;
  result.errors.push_back(text.error().message());
  return result;
}

std::vector<std::pair<std::string, bool>> changed(const load_result& before, const load_result& after) {
  const auto by_path = [](const load_result& one) {
    std::unordered_map<std::string_view, const setting*> settings;
    for (const auto& s : one.settings) settings.emplace(s.path, &s);
    return settings;
  };
  const auto old = by_path(before);
  const auto fresh = by_path(after);
  std::vector<std::pair<std::string, bool>> paths;
  for (const auto& s : after.settings) {
    const auto other = old.find(s.path);
    if (other == old.end() || other->second->value != s.value) paths.emplace_back(s.path, s.reloadable);
  }
  // Options of removed models and drafters.
  for (const auto& s : before.settings)
    if (!fresh.contains(s.path)) paths.emplace_back(s.path, s.reloadable);
  return paths;
}

} // namespace paceline::config
