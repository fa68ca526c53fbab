#include "runtime/tokenizer/pre_tokenizers/pattern_dialect.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/pre_tokenizers/pattern_properties.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::tokenizer {

namespace {

constexpr std::size_t max_pattern_bytes = 1U << 16;
constexpr int max_nested_classes = 16; ///< each costs stack here and in the engine

std::string in_brackets(std::string_view members, bool negated) {
  return (negated ? "[^" : "[") + std::string(members) + "]";
}

/// The parts of a class between "&&".
struct class_operand {
  std::string members;             ///< what PCRE2 reads in one class
  std::vector<std::string> others; ///< patterns of one character each

  void add(std::string_view set, bool negated) {
    if (negated)
      others.push_back(in_brackets(set, true));
    else
      members += set;
  }
  std::string pattern() const {
    std::string out;
    if (!members.empty()) out = in_brackets(members, false);
    for (const auto& other : others) out += (out.empty() ? "" : "|") + other;
    return others.empty() || (others.size() == 1 && members.empty()) ? out : "(?:" + out + ")";
  }
};

std::string class_pattern(const std::vector<class_operand>& operands, bool negated) {
  if (operands.size() == 1 && operands[0].others.empty()) return in_brackets(operands[0].members, negated);
  std::string all;
  for (std::size_t i = 0; i + 1 < operands.size(); ++i) all += "(?=" + operands[i].pattern() + ")";
  all += operands.back().pattern();
  if (negated) return "(?:(?!" + all + ")(?s:.))";
  return operands.size() == 1 ? all : "(?:" + all + ")";
}

class translator {
 public:
  explicit translator(std::string_view pattern) : pattern_(pattern) {}

  expected<std::string> run() {
    while (!rest().empty() && refusal_.empty()) translate_next();
    if (refusal_.empty()) return std::move(out_);
    return error(errc::unsupported, "pattern " + quote(pattern_) + ": " + refusal_);
  }

 private:
  std::string_view rest() const noexcept { return pattern_.substr(at_); }
  void refuse(std::string_view why) {
    if (refusal_.empty()) refusal_ = why;
  }
  /// Consumes and returns the next `length` characters.
  std::string_view take(std::size_t length) {
    const std::string_view taken = rest().substr(0, length);
    at_ += taken.size();
    return taken;
  }
  bool take_if(std::string_view text) {
    if (!rest().starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  void translate_next() {
    const char c = rest()[0];
    if (c == '(') return open_group();
    if (c == ')') {
      atom_ = groups_.empty() ? out_.size() : groups_.back();
      if (!groups_.empty()) groups_.pop_back();
      out_ += take(1);
    } else if (c == '{') {
      translate_brace();
    } else if (c == '*' || c == '+' || c == '?') {
      out_ += take(1);
    } else if (c == '[') {
      add_atom(read_class(0));
    } else if (c == '\\') {
      add_atom(read_escape());
    } else if (is_utf8_continuation(c)) {
      out_ += take(1); // the rest of a character
    } else {
      add_atom(std::string(take(1)));
    }
  }

  void add_atom(std::string_view atom) {
    atom_ = out_.size();
    out_ += atom;
  }

  void open_group() {
    if (rest().starts_with("(?#")) {
      at_ = std::min(pattern_.size(), pattern_.find(')', at_));
      at_ += at_ < pattern_.size() ? 1 : 0;
      return;
    }
    if (rest().starts_with("(*")) refuse("(* is not Oniguruma's");
    groups_.push_back(out_.size());
    out_ += take(1);
    if (!take_if("?")) return;
    out_ += '?';
    while (!rest().empty() && std::string_view("imx-").find(rest()[0]) != std::string_view::npos) {
      const char option = take(1)[0];
      out_ += option == 'm' ? 's' : option;
    }
    if (rest().starts_with('s')) refuse("the option (?s) is not Oniguruma's");
  }

  /// Translates a brace. "{n}", "{n,}", "{,m}" and "{n,m}" are intervals; any other brace is text.
  void translate_brace() {
    std::size_t end = 1;
    const auto digits = [&] {
      const std::size_t begin = end;
      while (end < rest().size() && rest()[end] >= '0' && rest()[end] <= '9') ++end;
      return rest().substr(begin, end - begin);
    };
    const std::string_view low = digits();
    const bool exact = !rest().substr(end).starts_with(',');
    if (!exact) ++end;
    const std::string_view high = exact ? low : digits();
    if ((low.empty() && high.empty()) || !rest().substr(end).starts_with('}')) {
      take(1);
      return add_atom(R"(\{)");
    }
    take(end + 1);
    out_ += "{" + std::string(low.empty() ? "0" : low) + (exact ? "" : "," + std::string(high)) + "}";
    const bool repeats = rest().starts_with('+') || (exact && rest().starts_with('?'));
    if (!repeats) return;
    out_.insert(atom_, "(?:");
    out_ += ')';
  }

  /// An escape outside classes.
  std::string read_escape() {
    const char escaped = rest().size() < 2 ? '\0' : rest()[1];
    if (escaped == 'w' || escaped == 'W') {
      take(2);
      return in_brackets(bare_word_members, escaped == 'W');
    }
    if (escaped == 'b' || escaped == 'B') {
      take(2);
      const std::string word = in_brackets(bare_word_members, false);
      const std::string inside = escaped == 'b' ? "!" : "=";
      const std::string outside = escaped == 'b' ? "=" : "!";
      return "(?:(?<=" + word + ")(?" + inside + word + ")|(?<!" + word + ")(?" + outside + word + "))";
    }
    class_operand single;
    return read_set(single) ? single.pattern() : read_character();
  }

  /// An escape for one character, or one that both engines interpret alike.
  std::string read_character() {
    const std::string_view both = take(2);
    if (both.size() < 2) {
      refuse("ends with a backslash");
      return {};
    }
    switch (both[1]) {
    case 'v':
      return R"(\x0b)";
    case 'u':
      return R"(\x{)" + std::string(take(4)) + "}";
    case 'x':
      if (rest().starts_with('{')) return R"(\x)" + std::string(take(rest().find('}') + 1));
      if (rest() >= "8") refuse("bytes (\\x80 to \\xff) are not supported");
      return R"(\x)" + std::string(take(2));
    case 'Q':
    case 'E':
    case 'C':
    case 'o':
      refuse("the escape " + escaped(both) + " is not supported");
      return {};
    default:
      return std::string(both);
    }
  }

  /// Reads an escape that stands for a set of characters; false when there is none.
  bool read_set(class_operand& out) {
    if (rest().size() < 2) return false;
    const char escaped = rest()[1];
    const bool negated = escaped >= 'A' && escaped <= 'Z';
    switch (escaped) {
    case 's':
    case 'S':
      return add_set(out, space_members, negated);
    case 'w':
    case 'W':
      return add_set(out, word_members, negated);
    case 'h':
    case 'H':
      return add_set(out, hex_digit_members, negated);
    case 'd':
    case 'D':
      return add_set(out, digit_members, negated);
    case 'p':
    case 'P':
      take(2);
      read_property(out, negated);
      return true;
    default:
      return false;
    }
  }
  bool add_set(class_operand& out, std::string_view members, bool negated) {
    take(2);
    out.add(members, negated);
    return true;
  }

  void read_property(class_operand& out, bool negated) {
    const std::size_t close = rest().find('}');
    if (!rest().starts_with('{') || close == std::string_view::npos) return refuse("\\p without {name}");
    std::string_view given = take(close + 1);
    given = given.substr(1, given.size() - 2);
    if (given.starts_with('^')) {
      negated = !negated;
      given.remove_prefix(1);
    }
    const std::string members = property_members(given);
    if (members.empty()) return refuse("\\p{" + escaped(given) + "} is not supported");
    out.add(members, negated);
  }

  /// A class, from its opening bracket.
  std::string read_class(int depth) {
    take(1);
    if (depth == max_nested_classes) refuse("more than 16 classes inside each other are not supported");
    const bool negated = take_if("^");
    std::vector<class_operand> operands(1);
    for (bool first = true; refusal_.empty() && (first || !rest().starts_with(']')); first = false) {
      class_operand& operand = operands.back();
      if (rest().empty()) {
        refuse("a class is not closed");
      } else if (first && take_if("]")) {
        operand.members += R"(\])";
      } else if (take_if("&&")) {
        operands.emplace_back();
      } else if (rest().starts_with("[:")) {
        read_posix(operand);
      } else if (rest().starts_with('[')) {
        operand.others.push_back(read_class(depth + 1));
      } else if (take_if("^")) {
        operand.members += R"(\^)";
      } else if (!rest().starts_with('\\')) {
        operand.members += take(1);
      } else if (!read_set(operand)) {
        operand.members += read_character();
      }
    }
    take(1);
    for (const auto& operand : operands)
      if (operand.members.empty() && operand.others.empty()) refuse("a class has no members");
    return refusal_.empty() ? class_pattern(operands, negated) : std::string();
  }

  void read_posix(class_operand& out) {
    take(2);
    const bool negated = take_if("^");
    const std::size_t close = rest().find(":]");
    if (close == std::string_view::npos) return refuse("[: without :]");
    const std::string_view name = take(close);
    take(2);
    const std::string_view members = posix_class_members(name);
    if (members.empty()) return refuse("[:" + escaped(name) + ":] is not supported");
    out.add(members, negated);
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;            ///< start in out_ of what a quantifier repeats
  std::vector<std::size_t> groups_; ///< starts in out_ of the open groups
  std::string refusal_;
};

} // namespace

expected<std::string> pcre2_pattern(std::string_view pattern) {
  if (pattern.size() > max_pattern_bytes) return error(errc::unsupported, "a pattern is longer than 64 KiB");
  return translator(pattern).run();
}

} // namespace paceline::tokenizer
