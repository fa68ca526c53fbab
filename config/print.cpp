#include "config/load.hpp"

#include <charconv>

namespace paceline::config {

namespace {

bool is_index(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> names;
  for (;;) {
    const auto dot = path.find('.');
    names.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return names;
    path.remove_prefix(dot + 1);
  }
}

} // namespace

std::string print(const load_result& result) {
  std::string out = "version: 1\n";
  std::vector<std::string_view> before;
  for (const auto& s : result.settings) {
    const auto names = split(s.path);
    std::size_t shared = 0;
    while (shared < names.size() && shared < before.size() && names[shared] == before[shared]) ++shared;
    // Each map or list is indented by one more level. The dash of a list's element is on the line of the
    // element's first option.
    bool after_dash = false;
    for (std::size_t depth = shared; depth < names.size(); ++depth) {
      const auto indent = std::string(2 * depth, ' ');
      if (is_index(names[depth])) {
        out += indent + "- ";
        after_dash = true;
        continue;
      }
      if (!after_dash) out += indent;
      after_dash = false;
      out += std::string(names[depth]) + ":";
      if (depth + 1 < names.size()) out += '\n';
    }
    out += ' ' + s.value + "  # " + s.origin + '\n';
    before = names;
  }
  return out;
}

} // namespace paceline::config
