#include "runtime/grammar/regex_syntax.hpp"

#include <array>
#include <optional>
#include <utility>

namespace paceline::grammar {

namespace {

using kind = regex_node::kind;

constexpr std::array<std::pair<char, char>, 7> short_escapes{
    {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};

bool is_everything(const code_set& set) { return complement(set).empty(); }

bool is_single(const code_set& set) { return set.size() == 1 && set[0].first == set[0].last; }

std::string class_of(const code_set& set) {
  std::string out;
  append_class(out, set);
  return is_single(set) ? "\"" + out.substr(1, out.size() - 2) + "\"" : out;
}

std::string alternation(const std::vector<std::string>& alternatives) {
  std::string out;
  for (const auto& one : alternatives) out += (out.empty() ? "" : " | ") + one;
  return out;
}

/// Two sets that together have the members of `set`.
std::pair<code_set, code_set> halves(const code_set& set) {
  code_set low = set;
  code_set high;
  if (set.size() > 1) {
    const auto middle = static_cast<std::ptrdiff_t>(set.size() / 2);
    high.assign(set.begin() + middle, set.end());
    low.resize(static_cast<std::size_t>(middle));
  } else {
    const std::uint32_t middle = set[0].first + (set[0].last - set[0].first) / 2;
    low[0].last = middle;
    high.push_back({middle + 1, set[0].last});
  }
  return {low, high};
}

class writer {
 public:
  writer(text_form form, const rule_adder& add_rule) : form_(form), add_rule_(add_rule) {}

  void append(const regex_node& node) {
    switch (node.what) {
    case kind::characters:
      text += "(" + alternation(spellings(node.characters)) + ")";
      return;
    case kind::sequence:
      append_parts(node.parts, " ");
      return;
    case kind::choice:
      append_parts(node.parts, " | ");
      return;
    case kind::repeat: {
      std::string part;
      if (node.parts.front().what == kind::characters) {
        part = "(" + repeated_set(node.parts.front().characters) + ")";
      } else {
        std::swap(text, part);
        append(node.parts.front());
        std::swap(text, part);
        part = "(" + part + ")";
      }
      const auto max = node.max == unbounded ? std::nullopt : std::optional(node.max);
      text += repeated(part, node.min, max, add_rule_);
      return;
    }
    case kind::begin_anchor:
    case kind::end_anchor:
      has_inner_anchor = true;
      return;
    case kind::look_ahead:
    case kind::negative_look_ahead:
      has_look_ahead = true;
      return;
    }
  }

  std::string text;
  bool has_inner_anchor = false;
  bool has_look_ahead = false;

 private:
  std::vector<std::string> spellings(const code_set& set) const {
    if (form_ == text_form::json_string) return json_spellings(set);
    return {class_of(set)};
  }

  /// XGrammar 0.2.8 expands a class that is repeated. This takes seconds, and the masks are wrong. XGrammar
  /// does not expand a rule with several alternatives, so the class is divided into two.
  std::string repeated_set(const code_set& set) const {
    auto alternatives = spellings(set);
    if (alternatives.size() == 1 && alternatives[0].starts_with('[')) {
      const code_set raw = form_ == text_form::plain ? set : intersection(set, raw_in_json());
      if (!is_single(raw)) {
        const auto [low, high] = halves(raw);
        alternatives = {class_of(low), class_of(high)};
      }
    }
    return alternatives.size() == 1 ? alternatives[0] : add_rule_(alternation(alternatives));
  }

  void append_parts(const std::vector<regex_node>& parts, std::string_view between) {
    if (parts.empty()) {
      text += "\"\"";
      return;
    }
    text += '(';
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) text += between;
      append(parts[i]);
    }
    text += ')';
  }

  text_form form_;
  const rule_adder& add_rule_;
};

regex_node anything() {
  regex_node node{kind::repeat, {}, {}, 0, unbounded};
  node.parts.push_back({kind::characters, complement({}), {}, 0, 0});
  return node;
}

/// Handles the edges of one alternative of the whole expression. An anchor at an edge is removed. At an edge
/// without an anchor, any text may be added.
regex_node unanchored(regex_node node, bool is_whole) {
  if (node.what == kind::choice) {
    for (auto& part : node.parts) part = unanchored(std::move(part), is_whole);
    return node;
  }
  if (node.what != kind::sequence) {
    regex_node outer;
    outer.parts.push_back(std::move(node));
    node = std::move(outer);
  }
  auto& parts = node.parts;
  // If the whole alternative is one group around a choice or a sequence, the edges of the group are those of
  // the expression.
  if (parts.size() == 1 && (parts[0].what == kind::choice || parts[0].what == kind::sequence))
    return unanchored(std::move(parts[0]), is_whole);
  const bool has_begin = !parts.empty() && parts.front().what == kind::begin_anchor;
  if (has_begin) parts.erase(parts.begin());
  const bool has_end = !parts.empty() && parts.back().what == kind::end_anchor;
  if (has_end) parts.pop_back();
  if (!is_whole && !has_begin) parts.insert(parts.begin(), anything());
  if (!is_whole && !has_end) parts.push_back(anything());
  return node;
}

} // namespace

const code_set& raw_in_json() {
  static const code_set set = to_set({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, last_code_point}});
  return set;
}

std::vector<std::string> json_spellings(const code_set& set) {
  std::vector<std::string> out;
  if (is_everything(set)) return {std::string(json_character_rule)};
  const code_set raw = intersection(set, raw_in_json());
  if (!raw.empty()) out.push_back(class_of(raw));
  const auto escape = [&](const std::string& text) { append_literal(out.emplace_back(), text); };
  for (const auto& [character, letter] : short_escapes)
    if (contains(set, static_cast<unsigned char>(character))) escape({'\\', letter});
  for (std::uint32_t code = 0; code < 0x20; ++code) {
    const bool is_short = code == 8 || code == 9 || code == 10 || code == 12 || code == 13;
    if (is_short || !contains(set, code)) continue;
    escape(std::string("\\u00") + (code < 16 ? '0' : '1') + "0123456789abcdef"[code % 16]);
  }
  return out;
}

expected<std::string> to_ebnf(const regex_node& regex, text_form form, bool is_whole,
                              const rule_adder& add_rule) {
  writer out(form, add_rule);
  out.append(unanchored(regex, is_whole));
  if (out.has_look_ahead) return error(errc::unsupported, "look-ahead is not supported here");
  if (out.has_inner_anchor)
    return error(errc::unsupported, "'^' and '$' are supported at the beginning and the end only");
  return std::move(out.text);
}

std::string json_plain_characters() {
  std::string raw;
  append_class(raw, raw_in_json());
  return raw;
}

std::string json_character_rules() {
  const std::string raw = json_plain_characters();
  // The rest of a text is one rule that ends with itself. So a token of several characters stays within one
  // rule, and the library knows its mask beforehand. In a repetition of a rule for one character, each token
  // would be tried at every step, which takes milliseconds.
  return "json_rest ::= \"\\\"\" | " + raw + " json_rest | \"\\\\\" json_escape json_rest\n" +
         std::string(json_character_rule) + " ::= " + raw + R"( | "\\" json_escape
json_escape ::= ["\\/bfnrt] | "u" ([0-9A-CE-Fa-ce-f] json_hex | [Dd] [0-7] json_hex2 | json_pair)
json_hex ::= [0-9A-Fa-f] json_hex2
json_hex2 ::= [0-9A-Fa-f] [0-9A-Fa-f]
json_pair ::= [Dd] [89ABab] json_hex2 "\\u" [Dd] [C-Fc-f] json_hex2
)";
}

} // namespace paceline::grammar
