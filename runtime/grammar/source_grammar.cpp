#include "runtime/grammar/source_grammar.hpp"

#include "runtime/grammar/code_points.hpp"
#include "runtime/grammar/regex_syntax.hpp"
#include "runtime/grammar/schema_grammar.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

namespace paceline::grammar {

namespace {

constexpr std::size_t max_source_depth = 32;
// XGrammar 0.2.8 expands repetitions; its masks for more are wrong.
constexpr std::size_t max_repetition = 128;

error refusal(errc code, std::size_t line, std::string_view rule) {
  return {code, "line " + std::to_string(line) + ": " + std::string(rule)};
}

/// Checks what an EBNF text of a client may contain: no macros and attributes of XGrammar, which have effects
/// beyond the text, at most 32 nested groups, and no number above 128. Reads it as a sequence of characters
/// that are in no string, class or comment. Errors name the line.
class ebnf_scan {
 public:
  explicit ebnf_scan(std::string_view text) : text_(text) {}

  expected<void> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
      } else if (c == '"' || c == '[') {
        if (!skip_quoted(c == '"' ? '"' : ']'))
          return refusal(errc::invalid_argument, line_, "a string or class does not end");
      } else if (auto checked = step(c); !checked) {
        return checked;
      }
    }
    return {};
  }

 private:
  bool skip_quoted(char end) {
    for (++at_; at_ < text_.size() && text_[at_] != end; ++at_) {
      if (text_[at_] == '\n') return false;
      if (text_[at_] == '\\') ++at_;
    }
    return at_++ < text_.size();
  }

  expected<void> step(char c) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.') return name();
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return number();
    ++at_;
    if (c == '(') {
      if (++depth_ > max_source_depth) return refusal(errc::unsupported, line_, "more than 32 nested groups");
      if (at_ < text_.size() && text_[at_] == '=')
        return refusal(errc::unsupported, line_, "look-ahead is not supported");
    }
    if (c == ')' && depth_ > 0) --depth_;
    return {};
  }

  expected<void> name() {
    const std::size_t begin = at_;
    const auto is_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    };
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const auto word = text_.substr(begin, at_ - begin);
    for (const std::string_view macro :
         {"TagDispatch", "Token", "ExcludeToken", "TokenTagDispatch", "Regex", "Substring"})
      if (word == macro)
        return refusal(errc::unsupported, line_, "'" + std::string(macro) + "' is not supported");
    if (begins_attribute()) return refusal(errc::unsupported, line_, "attributes of rules are not supported");
    return {};
  }

  /// True for "[...] ::=" behind a name. A class behind the name of a rule looks alike but for the "::=". In
  /// an attribute, "]" may be quoted.
  bool begins_attribute() const {
    if (at_ >= text_.size() || text_[at_] != '[') return false;
    return is_defined_behind(end_of_brackets(false)) || is_defined_behind(end_of_brackets(true));
  }

  std::size_t end_of_brackets(bool has_quotes) const {
    bool is_quoted = false;
    std::size_t end = at_ + 1;
    for (; end < text_.size() && (is_quoted || text_[end] != ']'); ++end) {
      if (text_[end] == '\\')
        ++end;
      else if (has_quotes && text_[end] == '"')
        is_quoted = !is_quoted;
    }
    return std::min(end, text_.size());
  }

  bool is_defined_behind(std::size_t end) const {
    const auto next = text_.find_first_not_of("] \t\r\n", end);
    return next != std::string_view::npos && text_.substr(next).starts_with("::=");
  }

  expected<void> number() {
    std::size_t value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; ++at_)
      if (value <= max_repetition) value = value * 10 + static_cast<std::size_t>(text_[at_] - '0');
    if (value > max_repetition) return refusal(errc::unsupported, line_, "more than 128 repetitions");
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t depth_ = 0;
};

expected<std::string> from_choice(std::string_view text) {
  boost::system::error_code failed;
  boost::json::parse_options options;
  options.max_depth = 2;
  const auto value = boost::json::parse(text, failed, {}, options);
  if (failed || !value.is_array() || value.get_array().empty())
    return error(errc::invalid_argument, "must be an array of strings");
  std::string out = "root ::= ";
  for (const auto& item : value.get_array()) {
    if (!item.is_string() || item.get_string().empty())
      return error(errc::invalid_argument, "must be an array of strings that are not empty");
    if (&item != &value.get_array().front()) out += " | ";
    append_literal(out, {item.get_string().data(), item.get_string().size()});
  }
  out += '\n';
  return out;
}

expected<std::string> from_regex(std::string_view text) {
  auto regex = parse_regex(text);
  if (!regex) return std::move(regex).error().within("regex");
  std::map<std::string, std::string> names;
  std::string rules;
  const auto add_rule = [&](const std::string& rule) {
    const auto [found, is_new] = names.emplace(rule, "c" + std::to_string(names.size()));
    if (is_new) rules += found->second + " ::= " + rule + "\n";
    return found->second;
  };
  auto body = to_ebnf(*regex, text_form::plain, true, add_rule);
  if (!body) return std::move(body).error();
  if (body->size() + rules.size() > most_schema_cost.bytes)
    return error(errc::unsupported, "its grammar is above 512 KiB");
  return "root ::= " + *body + "\n" + rules;
}

} // namespace

expected<std::string> to_ebnf(const grammar_source& source) {
  switch (source.what) {
  case grammar_source::kind::json_object:
    return schema_to_ebnf(R"({"type": "object"})");
  case grammar_source::kind::json_schema:
    return schema_to_ebnf(source.text);
  case grammar_source::kind::regex:
    return from_regex(source.text);
  case grammar_source::kind::choice:
    return from_choice(source.text);
  case grammar_source::kind::ebnf:
    break;
  }
  if (source.text.find('\0') != std::string::npos) return error(errc::invalid_argument, "it contains a NUL");
  if (auto checked = ebnf_scan(source.text).run(); !checked) return std::move(checked).error();
  return source.text;
}

} // namespace paceline::grammar
