// Rules for JSON strings.
#include "runtime/grammar/code_points.hpp"
#include "runtime/grammar/regex_syntax.hpp"
#include "runtime/grammar/schema_keywords.hpp"
#include "runtime/grammar/schema_writer.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <cstdio>

namespace paceline::grammar {

namespace {

namespace json = boost::json;

/// The first `count` characters of `text`, or all of it.
std::string first_characters(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  for (; count > 0 && at < text.size(); --count)
    if (!next_code_point(text, at)) ++at;
  return std::string(text.substr(0, at));
}

std::string in_ascii(std::string_view quoted) {
  std::string out;
  std::array<char, 16> escape{};
  for (std::size_t at = 0; at < quoted.size();) {
    const auto code = next_code_point(quoted, at).value_or(0xFFFD);
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x10000) {
      std::snprintf(escape.data(), escape.size(), "\\u%04x", code);
      out += escape.data();
    } else {
      const auto rest = code - 0x10000;
      std::snprintf(escape.data(), escape.size(), "\\u%04x\\u%04x", 0xD800 + (rest >> 10U),
                    0xDC00 + (rest & 0x3FFU));
      out += escape.data();
    }
  }
  return out;
}

} // namespace

std::string json_text_literal(std::string_view text) {
  const std::string quoted = json::serialize(json::string(text));
  std::string out;
  append_literal(out, quoted);
  const std::string ascii = in_ascii(quoted);
  if (ascii == quoted) return out;
  out = "(" + out + " | ";
  append_literal(out, ascii);
  return out + ")";
}

std::string schema_writer::text_except(const std::set<std::string>& texts) {
  // A tree of the texts' beginnings: each rule goes on from one of them. Rules of it take milliseconds to
  // compile, so the tree ends where it becomes large.
  constexpr std::size_t max_beginnings = 64;
  std::set<std::string> beginnings{""};
  for (std::size_t depth = 1;; ++depth) {
    std::set<std::string> longer = beginnings;
    for (const auto& text : texts) longer.insert(first_characters(text, depth));
    const bool is_complete = longer.size() == beginnings.size();
    if (is_complete || (longer.size() > max_beginnings && depth > 1)) break;
    beginnings = std::move(longer);
  }
  const std::string prefix = new_name("k") + "_";
  std::map<std::string, std::string> names; // of the rules that match something
  const code_set plain = to_set({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, last_code_point}});
  for (auto it = beginnings.rbegin(); it != beginnings.rend(); ++it) {
    const std::string& beginning = *it;
    std::string body = texts.contains(beginning) ? "" : "\"\\\"\"";
    std::vector<code_range> followed;
    bool is_cut = false; // texts go on here and the tree does not
    for (auto text = texts.upper_bound(beginning); text != texts.end() && text->starts_with(beginning);
         ++text) {
      std::size_t at = beginning.size();
      const auto code = next_code_point(*text, at).value_or(0);
      const std::string longer = text->substr(0, at);
      is_cut = is_cut || !beginnings.contains(longer);
      const bool is_new = followed.empty() || followed.back().first != code;
      if (!is_new) continue;
      followed.push_back({code, code});
      const auto next = names.find(longer);
      if (next == names.end() || intersection(plain, {{code, code}}).empty()) continue;
      std::string one;
      append_literal(one, longer.substr(beginning.size()));
      add_alternative(body, one + " " + next->second);
    }
    std::string other;
    append_class(other, intersection(plain, complement(to_set(followed))));
    if (!is_cut) add_alternative(body, other + " json_plain_end");
    if (body.empty()) continue;
    new_name("");
    const auto name = prefix + std::to_string(names.size());
    names.emplace(beginning, name);
    define(name, body);
  }
  return names.contains("") ? "\"\\\"\" " + names[""] : "";
}

std::string schema_writer::pattern_text(const conjunction& schemas, schema_ptr from, std::string_view keyword,
                                        std::string_view pattern) {
  auto regex = parse_regex(pattern);
  if (!regex) {
    algebra_.refuse(regex.error().code(), from, keyword, regex.error().message());
    return "";
  }
  const auto least = largest(schemas, "minLength");
  const auto most = smallest(schemas, "maxLength");
  if (least || most) {
    // Both a pattern and a length: for repetitions of one set of characters, which is what most patterns are.
    auto* parts = regex->what == regex_node::kind::sequence ? &regex->parts : nullptr;
    const bool is_simple =
        parts != nullptr && parts->size() == 3 && (*parts)[0].what == regex_node::kind::begin_anchor &&
        (*parts)[2].what == regex_node::kind::end_anchor && (*parts)[1].what == regex_node::kind::repeat &&
        (*parts)[1].parts.front().what == regex_node::kind::characters;
    if (!is_simple) {
      algebra_.refuse(errc::unsupported, from, keyword,
                      "beside 'minLength' or 'maxLength' only patterns like ^[a-z]*$ are supported");
      return "";
    }
    auto& repeat = (*parts)[1];
    repeat.min = std::max(repeat.min, least.value_or(0));
    repeat.max = std::min(repeat.max, most.value_or(unbounded));
    if (repeat.min > repeat.max) return "";
  }
  auto body = to_ebnf(*regex, text_form::json_string, false,
                      [&](const std::string& rule) { return add_rule("c", rule); });
  if (body) return "\"\\\"\" " + *body + " \"\\\"\"";
  algebra_.refuse(body.error().code(), from, keyword, body.error().message());
  return "";
}

std::string schema_writer::text(const conjunction& schemas) {
  constexpr std::uint32_t max_counted = 128;
  schema_ptr from = nullptr;
  std::string_view keyword;
  std::string pattern;
  std::set<std::string> excluded;
  for (const auto& [schema, parent] : schemas) {
    for (const std::string_view name : {"pattern", "format"}) {
      const auto* value = schema->get_object().if_contains(name);
      if (value == nullptr) continue;
      std::string own(value->get_string());
      if (name == "format") own = format_pattern(own).value_or("");
      if (from != nullptr && own != pattern)
        algebra_.refuse(errc::unsupported, schema, name, "two patterns or formats are not supported");
      from = schema;
      keyword = name;
      pattern = own;
    }
    if (const auto* values = schema->get_object().if_contains(not_in_keyword))
      for (const auto& value : values->get_array())
        if (value.is_string()) excluded.emplace(value.get_string());
  }
  const auto least = largest(schemas, "minLength");
  const auto most = smallest(schemas, "maxLength");
  if (!excluded.empty()) {
    if (from != nullptr || least || most)
      algebra_.refuse(errc::unsupported, schemas.front().schema, "",
                      "a negation beside limits of the text is not supported");
    return text_except(excluded);
  }
  if (from != nullptr) return pattern_text(schemas, from, keyword, pattern);
  if (!least && !most) return "json_string";
  if (most && least.value_or(0) > *most) return "";
  for (const auto& [bound, name] : {std::pair(least, "minLength"), std::pair(most, "maxLength")})
    if (bound && *bound > max_counted)
      algebra_.refuse(errc::unsupported, schemas.front().schema, name,
                      "above " + std::to_string(max_counted) + " it is not supported");
  if (least.value_or(0) > max_counted || most.value_or(0) > max_counted) return "";
  // A rule for each place: the masks of all of them are made beforehand, 20 ms a rule at a vocabulary of
  // 152k. A counted repetition of a rule would take milliseconds at every step, and XGrammar's masks of a
  // counted set of characters are wrong (docs/decisions/0589).
  const auto num_places = most.value_or(least.value_or(0));
  std::string rest = most ? R"("\"")" : "json_rest";
  const std::string plain = json_plain_characters() + " ";
  for (auto place = num_places; place-- > 0;) {
    const std::string end = place >= least.value_or(0) ? R"("\"" | )" : "";
    rest = add_rule("l", end + plain + rest + R"( | "\\" json_escape )" + rest);
  }
  return R"("\"" )" + rest;
}

} // namespace paceline::grammar
