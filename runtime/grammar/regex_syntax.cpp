#include "runtime/grammar/regex_syntax.hpp"

#include "runtime/base/utf16.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace paceline::grammar {

namespace {

constexpr std::size_t max_group_depth = 32;
constexpr std::uint64_t max_weight = 2'000;
constexpr std::size_t ranges_per_weight = 16; // for a set of characters; "\\S" has 11 ranges
constexpr std::uint32_t max_repeats = 10'000;
constexpr std::size_t max_open = 64; // the automaton may be at any place of each at the same time

using kind = regex_node::kind;

const code_set& digits() {
  static const code_set set{{'0', '9'}};
  return set;
}
const code_set& word_characters() {
  static const code_set set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}
const code_set& spaces() {
  static const code_set set{{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                            {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                            {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}
const code_set& line_ends() {
  static const code_set set{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}

regex_node of(code_set set) { return {kind::characters, std::move(set), {}, 0, 0}; }

/// A parser by recursive descent. After the first error it does nothing more.
class parser {
 public:
  explicit parser(std::string_view text)
      : text_(text), look_place_(text.starts_with('^') ? 1 : std::string_view::npos) {}

  expected<regex_node> parse() {
    regex_node node = choice();
    if (!failure_ && at_ < text_.size()) refuse(errc::invalid_argument, "')' without '('");
    if (looks_ahead_ && node.what != kind::sequence)
      refuse(errc::unsupported, "look-ahead beside '|' is not supported");
    if (failure_) return *failure_;
    return node;
  }

 private:
  void refuse(errc code, std::string rule) {
    if (!failure_) failure_.emplace(code, "position " + std::to_string(at_) + ": " + std::move(rule));
  }
  bool done() const { return failure_.has_value() || at_ >= text_.size(); }
  bool is_at(char c) const { return !done() && text_[at_] == c; }
  bool take(char c) {
    if (!is_at(c)) return false;
    ++at_;
    return true;
  }
  std::uint32_t take_character() {
    const auto code = next_code_point(text_, at_);
    if (code) return *code;
    refuse(errc::invalid_argument, "not UTF-8");
    return 0;
  }

  regex_node choice() {
    regex_node out{kind::choice, {}, {}, 0, 0};
    do out.parts.push_back(sequence());
    while (take('|'));
    return out.parts.size() == 1 ? std::move(out.parts.front()) : out;
  }

  regex_node sequence() {
    regex_node out{kind::sequence, {}, {}, 0, 0};
    while (!done() && !is_at('|') && !is_at(')')) {
      const std::uint64_t before = weight_;
      regex_node part = atom();
      out.parts.push_back(repeated(std::move(part), before));
    }
    return out;
  }

  regex_node atom() {
    if (take('^')) return {kind::begin_anchor, {}, {}, 0, 0};
    if (take('$')) return {kind::end_anchor, {}, {}, 0, 0};
    if (take('(')) return group();
    regex_node node = of(one_of());
    add_weight(1 + node.characters.size() / ranges_per_weight);
    return node;
  }

  code_set one_of() {
    if (take('.')) return complement(line_ends());
    if (take('[')) return bracket();
    if (take('\\')) return escape(false);
    if (is_at('*') || is_at('+') || is_at('?') || is_at('{')) {
      refuse(errc::invalid_argument, "nothing to repeat");
      return {};
    }
    const std::uint32_t code = take_character();
    return {{code, code}};
  }

  /// The rest of a look-ahead, behind "(?".
  regex_node look_ahead() {
    regex_node out{take('=') ? kind::look_ahead : kind::negative_look_ahead, {}, {}, 0, 0};
    if (out.what == kind::negative_look_ahead) take('!');
    out.parts.push_back(choice());
    if (!take(')')) refuse(errc::invalid_argument, "'(' without ')'");
    --depth_;
    look_place_ = at_;
    looks_ahead_ = true;
    return out;
  }

  regex_node group() {
    const bool may_look_ahead = at_ - 1 == look_place_;
    if (++depth_ > max_group_depth) refuse(errc::unsupported, "more than 32 nested groups");
    add_weight(1); // an empty part may be repeated, too
    if (take('?') && !take(':')) {
      if (may_look_ahead && (is_at('=') || is_at('!'))) return look_ahead();
      const bool is_named = take('<') && !is_at('=') && !is_at('!');
      if (is_named)
        while (!done() && text_[at_] != '>') ++at_;
      if (!is_named || !take('>')) refuse(errc::unsupported, "look-around and flags are not supported");
    }
    regex_node inner = choice();
    if (!take(')')) refuse(errc::invalid_argument, "'(' without ')'");
    --depth_;
    return inner;
  }

  std::optional<std::uint32_t> number() {
    if (done() || std::isdigit(static_cast<unsigned char>(text_[at_])) == 0) return std::nullopt;
    std::uint32_t value = 0;
    while (!done() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      value = std::min(value * 10 + static_cast<std::uint32_t>(text_[at_] - '0'), max_repeats + 1);
      ++at_;
    }
    if (value > max_repeats) refuse(errc::unsupported, "more than 10000 repetitions");
    return value;
  }

  regex_node repeated(regex_node part, std::uint64_t weight_before) {
    regex_node out{kind::repeat, {}, {}, 0, unbounded};
    if (take('+')) {
      out.min = 1;
    } else if (take('?')) {
      out.max = 1;
    } else if (take('{')) {
      const auto least = number();
      if (!least) refuse(errc::invalid_argument, "a number must follow '{'");
      out.min = least.value_or(0);
      out.max = out.min;
      if (take(',')) out.max = number().value_or(unbounded);
      if (!take('}')) refuse(errc::invalid_argument, "'{' without '}'");
      if (out.max < out.min) refuse(errc::invalid_argument, "the bounds of '{' are in the wrong order");
    } else if (!take('*')) {
      return part;
    }
    const bool is_counted = out.max != unbounded && out.max > 1;
    if (!is_counted && ++num_open_ > max_open) refuse(errc::unsupported, "more than 64 '*', '+' and '?'");
    take('?'); // laziness decides which of several matches is preferred, and not which texts match
    if (is_at('*') || is_at('+') || is_at('?') || is_at('{'))
      refuse(errc::invalid_argument, "two repetitions of the same thing");
    if (part.what != kind::characters && part.what != kind::sequence && part.what != kind::choice)
      refuse(errc::invalid_argument, "an anchor cannot be repeated");
    const std::uint64_t times = std::max(out.max == unbounded ? out.min : out.max, 1U);
    const std::uint64_t part_weight = weight_ - weight_before;
    weight_ = weight_before;
    add_weight(part_weight * times);
    out.parts.push_back(std::move(part));
    return out;
  }

  void add_weight(std::uint64_t weight) {
    weight_ += weight;
    if (weight_ > max_weight)
      refuse(errc::unsupported, "written out, the expression has more than 2000 characters, or sets of too "
                                "many ranges");
  }

  code_set bracket() {
    const bool is_negated = take('^');
    std::vector<code_range> ranges;
    while (!done() && !is_at(']')) {
      const code_set first = bracket_item();
      if (is_at('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        const code_set last = bracket_item();
        if (failure_) return {};
        append_range(ranges, first, last);
      } else {
        ranges.insert(ranges.end(), first.begin(), first.end());
      }
    }
    if (!take(']')) refuse(errc::invalid_argument, "'[' without ']'");
    code_set set = to_set(std::move(ranges));
    if (is_negated) set = complement(set);
    if (set.empty()) refuse(errc::invalid_argument, "a set of no characters");
    return set;
  }

  /// Appends `first`-`last`. Beside an escape that stands for several characters, the hyphen is one of the
  /// characters of the set, as in ECMAScript without the flag "u".
  void append_range(std::vector<code_range>& ranges, const code_set& first, const code_set& last) {
    const auto is_single = [](const code_set& set) { return set.size() == 1 && set[0].first == set[0].last; };
    if (!is_single(first) || !is_single(last)) {
      ranges.insert(ranges.end(), first.begin(), first.end());
      ranges.insert(ranges.end(), last.begin(), last.end());
      ranges.push_back({'-', '-'});
    } else if (first[0].first > last[0].first) {
      refuse(errc::invalid_argument, "wrong range of characters");
    } else {
      ranges.push_back({first[0].first, last[0].first});
    }
  }

  code_set bracket_item() {
    if (take('\\')) return escape(true);
    const std::uint32_t code = take_character();
    return {{code, code}};
  }

  std::uint32_t hex(std::size_t num_digits) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < num_digits; ++i) {
      const int c = done() ? 0 : static_cast<unsigned char>(text_[at_]);
      if (std::isxdigit(c) == 0) {
        refuse(errc::invalid_argument, "a hexadecimal digit is missing");
        return 0;
      }
      value = value * 16 + static_cast<std::uint32_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
      ++at_;
    }
    return value;
  }

  /// The four digits of "\u" and, behind the first half of a surrogate pair, the second half.
  std::uint32_t utf16_character() {
    const auto first = hex(4);
    if (!is_surrogate(first) || !text_.substr(at_).starts_with("\\u")) return first;
    at_ += 2;
    return joined_surrogates(first, hex(4)).value_or(first); // a single half is refused as a character
  }

  code_set escape(bool is_in_bracket) {
    if (done()) {
      refuse(errc::invalid_argument, "nothing follows '\\'");
      return {};
    }
    const std::uint32_t c = take_character();
    switch (c) {
    case 'd':
      return digits();
    case 'D':
      return complement(digits());
    case 'w':
      return word_characters();
    case 'W':
      return complement(word_characters());
    case 's':
      return spaces();
    case 'S':
      return complement(spaces());
    case 't':
      return {{9, 9}};
    case 'n':
      return {{10, 10}};
    case 'v':
      return {{11, 11}};
    case 'f':
      return {{12, 12}};
    case 'r':
      return {{13, 13}};
    case '0':
      return {{0, 0}};
    case 'x':
      return one(hex(2));
    case 'u':
      return one(utf16_character());
    case 'b':
      if (is_in_bracket) return {{8, 8}};
      break;
    default:
      break;
    }
    // A letter or digit has a meaning of its own, or may get one later. Any other character stands for
    // itself.
    if (c < 0x80 && std::isalnum(static_cast<int>(c)) != 0) {
      refuse(errc::unsupported, std::string("'\\") + static_cast<char>(c) + "' is not supported");
      return {};
    }
    return {{c, c}};
  }

  code_set one(std::uint32_t code) {
    code_set set = to_set({{code, code}});
    if (set.empty()) refuse(errc::unsupported, "halves of characters are not supported");
    return set;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t look_place_; ///< where a look-ahead may begin
  bool looks_ahead_ = false;
  std::size_t depth_ = 0;
  std::size_t num_open_ = 0;
  std::uint64_t weight_ = 0; ///< characters when all repetitions are written out
  std::optional<error> failure_;
};

} // namespace

expected<regex_node> parse_regex(std::string_view text) {
  if (text.empty()) return regex_node{};
  return parser(text).parse();
}

} // namespace paceline::grammar
