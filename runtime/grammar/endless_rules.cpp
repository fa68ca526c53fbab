#include "runtime/grammar/endless_rules.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace paceline::grammar {

namespace {

/// True for rules that match a finite text, as far as that is known; by name.
using known_rules = std::map<std::string_view, bool>;

/// Reads the body of a rule once and says whether it matches a finite text, given what is known of rules.
/// Appends the names in it to `names` if that is not null.
class body_reader {
 public:
  body_reader(std::string_view body, const known_rules& known, std::vector<std::string_view>* names = nullptr)
      : rest_(body), known_(known), names_(names) {}

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
    if (names_ != nullptr && found != known_.end()) names_->push_back(found->first);
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
  std::vector<std::string_view>* names_;
};

using rule_list = std::vector<std::pair<std::string_view, std::string_view>>; // names and bodies

rule_list rules_of(std::string_view ebnf) {
  constexpr std::string_view between = " ::= ";
  rule_list rules;
  while (!ebnf.empty()) {
    const auto line = ebnf.substr(0, ebnf.find('\n'));
    ebnf.remove_prefix(std::min(ebnf.size(), line.size() + 1));
    if (const auto name_end = line.find(between); name_end != std::string_view::npos)
      rules.emplace_back(line.substr(0, name_end), line.substr(name_end + between.size()));
  }
  return rules;
}

/// Some rules are written for parts that are then left out.
std::set<std::string_view> reached_from(std::string_view start, const rule_list& rules,
                                        const known_rules& known) {
  const std::map<std::string_view, std::string_view> bodies(rules.begin(), rules.end());
  std::set<std::string_view> reached{start};
  for (std::vector<std::string_view> left{start}; !left.empty();) {
    const auto body = bodies.find(left.back());
    left.pop_back();
    if (body == bodies.end()) continue;
    std::vector<std::string_view> names;
    body_reader(body->second, known, &names).alternatives();
    for (const auto name : names)
      if (reached.insert(name).second) left.push_back(name);
  }
  return reached;
}

} // namespace

std::vector<std::string> endless_rules(std::string_view ebnf, std::string_view start) {
  const rule_list rules = rules_of(ebnf);
  known_rules known;
  for (const auto& [name, body] : rules) known[name] = false;
  // Most rules come after those that they need, and those of automata before them. So turns in both
  // directions settle nearly all at once.
  rule_list open = rules;
  for (bool changed = true; changed; std::ranges::reverse(open)) {
    changed = false;
    std::erase_if(open, [&](const auto& rule) {
      if (!body_reader(rule.second, known).alternatives()) return false;
      changed = known[rule.first] = true;
      return true;
    });
  }
  std::vector<std::string> endless;
  if (open.empty()) return endless;
  const auto reached = reached_from(start, rules, known);
  for (const auto& [name, body] : rules)
    if (!known[name] && reached.contains(name)) endless.emplace_back(name);
  return endless;
}

} // namespace paceline::grammar
