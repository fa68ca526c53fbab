#include "config/node.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace paceline::config {

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substituted}));
    }
  }
  return row.back();
}

} // namespace

std::string place::text(std::string_view file_name) const {
  switch (source) {
  case kind::variable:
    return "environment " + variable;
  case kind::command_line:
    return "command line";
  case kind::file:
    break;
  }
  return std::string(file_name) + ':' + std::to_string(line) + ':' + std::to_string(column);
}

const node* node::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &entry::key);
  return found == entries.end() ? nullptr : &found->value;
}

node* node::find(std::string_view key) { return const_cast<node*>(std::as_const(*this).find(key)); }

std::string_view describe(const node& n) {
  switch (n.type) {
  case node::kind::map:
    return "a map";
  case node::kind::list:
    return "a list";
  case node::kind::scalar:
    return n.quoted ? "a quoted text" : "a value";
  case node::kind::null:
    break;
  }
  return "nothing";
}

std::string complain(const place& where, std::string_view file_name, std::string_view path,
                     std::string_view rule) {
  auto message = where.text(file_name) + ": ";
  if (!path.empty()) message.append(path).append(": ");
  return message.append(rule);
}

std::string_view nearest_name(std::string_view name, const std::vector<std::string>& names) {
  constexpr std::size_t longest = 64; // the longest name to compare: the distance takes quadratic time
  if (name.size() > longest) return {};
  std::string_view best;
  auto least = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const auto& candidate : names) {
    const auto distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

} // namespace paceline::config
