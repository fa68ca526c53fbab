#include "config/overrides.hpp"

#include "config/option.hpp"
#include "runtime/base/expected.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace paceline::config {

namespace {

constexpr std::string_view prefix = "PACELINE_";

std::string variable_name(std::string_view path) {
  std::string name;
  for (const char c : path) {
    if (c == '.')
      name += '_';
    else
      name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

/// Index of a list element; all of `text` must be a number.
std::optional<std::size_t> parse_index(std::string_view text) {
  std::size_t n = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

/// The path within `group` for the rest of a variable's name. It is empty if there is no such option.
std::string path_in_group(const option_group& group, std::string_view rest) {
  for (const auto& o : group.options)
    if (rest == variable_name(o.path)) return std::string(o.path);
  if (group.elements == nullptr) return {};
  const auto list = variable_name(group.elements->list) + "_";
  if (!rest.starts_with(list)) return {};
  rest.remove_prefix(list.size());
  const auto end = rest.find('_');
  if (end == std::string_view::npos || !parse_index(rest.substr(0, end))) return {};
  const auto inner = path_in_group(*group.elements, rest.substr(end + 1));
  if (inner.empty()) return {};
  return std::string(group.elements->list) + '.' + std::string(rest.substr(0, end)) + '.' + inner;
}

/// True for names that are clearly meant for this program, because one of its sections follows the prefix.
bool looks_like_ours(std::string_view rest) {
  return std::ranges::any_of(root_options().names_in(""), [&](const std::string& section) {
    return rest.starts_with(variable_name(section) + "_");
  });
}

/// The node at `path`, created if missing. The error's text states why it cannot be.
expected<node*> node_at(node& root, std::string_view path, const place& where) {
  auto* n = &root;
  while (!path.empty()) {
    const auto dot = path.find('.');
    const auto name = path.substr(0, dot);
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
    if (name.empty() || (dot != std::string_view::npos && path.empty()))
      return error(errc::invalid_argument, "not a path such as server.port or models.0.path");
    const auto index = parse_index(name);
    if (n->type == node::kind::null) {
      n->type = index ? node::kind::list : node::kind::map;
      n->place = where;
    }
    if (index) {
      if (n->type != node::kind::list)
        return error(errc::invalid_argument, "no list has an element " + std::string(name) + " there");
      if (*index > n->items.size())
        return error(errc::invalid_argument, "the list has " + std::to_string(n->items.size()) +
                                                 " elements; a new one would be number " +
                                                 std::to_string(n->items.size()));
      if (*index == n->items.size()) n->items.push_back({});
      n = &n->items[*index];
    } else {
      if (n->type != node::kind::map)
        return error(errc::invalid_argument, "there is no map that could hold " + std::string(name));
      auto* next = n->find(name);
      if (next == nullptr) next = &n->entries.emplace_back(entry{std::string(name), where, {}}).value;
      n = next;
    }
  }
  return n;
}

void assign(node& root, std::string_view path, std::string_view text, const place& where,
            std::vector<std::string>& errors) {
  const auto n = node_at(root, path, where);
  if (!n) {
    errors.push_back(complain(where, {}, path, n.error().message()));
    return;
  }
  **n = node{};
  (*n)->type = node::kind::scalar;
  (*n)->place = where;
  (*n)->text = text;
}

} // namespace

std::string path_of_variable(std::string_view name) {
  if (!name.starts_with(prefix)) return {};
  return path_in_group(root_options(), name.substr(prefix.size()));
}

void overlay_variables(node& root, const environment& variables, std::vector<std::string>& errors,
                       std::vector<std::string>& warnings) {
  for (auto v = variables.lower_bound(prefix); v != variables.end() && v->first.starts_with(prefix); ++v) {
    const auto path = path_of_variable(v->first);
    place where;
    where.source = place::kind::variable;
    where.variable = v->first;
    if (!path.empty())
      assign(root, path, v->second, where, errors);
    else if (looks_like_ours(std::string_view(v->first).substr(prefix.size())))
      warnings.push_back(complain(where, {}, {}, "names no option and is ignored"));
  }
}

void overlay_assignments(node& root, const std::vector<assignment>& assignments,
                         std::vector<std::string>& errors) {
  place where;
  where.source = place::kind::command_line;
  for (const auto& [path, text] : assignments) assign(root, path, text, where, errors);
}

} // namespace paceline::config
