#include "runtime/grammar/endless_rules.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <utility>

namespace paceline::grammar {

namespace {

/// True for rules that match a finite text, as far as that is known; by name.
using known_rules = std::map<std::string_view, bool>;

/// Reads the body of a rule once and says whether it matches a finite text, given what is known of rules.
class body_reader {
 public:
  body_reader(std::string_view body, const known_rules& known) : rest_(body), known_(known) {}

  bool alternatives() {
    bool any = sequence();
    while (take('|')) any |= sequence();
    return any;
  }

 private:
  bool sequence() {
    bool all = true;
    while (skip_blanks(), !rest_.empty() && rest_.front() != '|' && rest_.front() != ')') {
      const bool one = element();
      all &= may_be_left_out() || one;
    }
    return all;
  }

  bool element() {
    if (take('(')) {
      const bool inner = alternatives();
      take(')');
      return inner;
    }
    if (rest_.front() == '"') return skip_quoted('"');
    if (rest_.front() == '[') return skip_quoted(']');
    std::size_t length = 0;
    while (length < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[length])) != 0 || rest_[length] == '_'))
      ++length;
    const auto found = known_.find(rest_.substr(0, length));
    rest_.remove_prefix(length == 0 ? 1 : length);
    return found == known_.end() || found->second;
  }

  /// Reads the repetition behind an element, if there is one.
  bool may_be_left_out() {
    if (rest_.empty()) return false;
    if (rest_.front() == '?' || rest_.front() == '*') return rest_.remove_prefix(1), true;
    if (rest_.front() == '+') return rest_.remove_prefix(1), false;
    if (rest_.front() != '{') return false;
    const bool from_zero = rest_.starts_with("{0");
    rest_.remove_prefix(std::min(rest_.size(), rest_.find('}') + 1));
    return from_zero;
  }

  bool skip_quoted(char end) {
    std::size_t at = 1;
    for (; at < rest_.size() && rest_[at] != end; ++at)
      if (rest_[at] == '\\') ++at;
    rest_.remove_prefix(std::min(rest_.size(), at + 1));
    return true;
  }
  void skip_blanks() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }
  bool take(char wanted) {
    skip_blanks();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view rest_;
  const known_rules& known_;
};

} // namespace

std::vector<std::string> endless_rules(std::string_view ebnf) {
  constexpr std::string_view between = " ::= ";
  std::vector<std::pair<std::string_view, std::string_view>> open; // not known to be finite yet
  known_rules known;
  while (!ebnf.empty()) {
    const auto line = ebnf.substr(0, ebnf.find('\n'));
    ebnf.remove_prefix(std::min(ebnf.size(), line.size() + 1));
    const auto name_end = line.find(between);
    if (name_end == std::string_view::npos) continue;
    open.emplace_back(line.substr(0, name_end), line.substr(name_end + between.size()));
    known[open.back().first] = false;
  }
  // A rule mostly comes after those that it needs, so that few turns are enough.
  for (bool changed = true; changed;) {
    changed = false;
    std::erase_if(open, [&](const auto& rule) {
      if (!body_reader(rule.second, known).alternatives()) return false;
      changed = known[rule.first] = true;
      return true;
    });
  }
  std::vector<std::string> endless;
  for (const auto& [name, body] : open) endless.emplace_back(name);
  return endless;
}

} // namespace paceline::grammar
