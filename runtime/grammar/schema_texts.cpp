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

constexpr std::size_t max_text_conditions = 32; // maximum number of conditions for one text

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
  // The rules form a tree of the beginnings of the texts: each rule continues one beginning. Such rules take
  // milliseconds to compile, so the tree is cut where it becomes large.
  constexpr std::size_t max_beginnings = 64;
  if (!algebra_.spend(texts.size(), algebra_.document().root())) return "";
  std::set<std::string> beginnings{""};
  for (std::size_t depth = 1;; ++depth) {
    std::set<std::string> longer = beginnings;
    for (const auto& text : texts) longer.insert(first_characters(text, depth));
    const bool is_complete = longer.size() == beginnings.size();
    if (is_complete || (longer.size() > max_beginnings && depth > 1)) break;
    beginnings = std::move(longer);
  }
  constexpr std::size_t rules_per_place = 4; // these rules cost less, because few tokens continue them
  if (!spend_places(1 + beginnings.size() / rules_per_place)) return "";
  const std::string prefix = new_name("k") + "_";
  std::map<std::string, std::string> names; // of the rules that match something, by beginning
  const code_set& plain = raw_in_json();
  for (auto it = beginnings.rbegin(); it != beginnings.rend(); ++it) {
    const std::string& beginning = *it;
    std::string body = texts.contains(beginning) ? "" : "\"\\\"\"";
    std::vector<code_range> followed;
    bool is_cut = false; // true: a text continues here, but the tree does not
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

void schema_writer::add_text_terms(const conjunction& schemas, text_terms& to) {
  for (const auto& [schema, parent] : schemas) {
    if (const auto* pattern = member(schema, "pattern"))
      to.regexes.push_back({regex_of(schema, "pattern", view(pattern->get_string())), true});
    if (const auto* pattern = member(schema, not_pattern_keyword))
      to.regexes.push_back(
          {regex_of(schema, "not", view(algebra_.document().at_handle(*pattern)->get_string())), false});
    if (const auto* name = member(schema, "format"); name != nullptr && has_enforced_format(schema)) {
      const auto* format = format_named(view(name->get_string()));
      if (to.format != nullptr && to.format != format)
        to.regexes.push_back({regex_of(schema, "format", format->pattern), true});
      if (to.format == nullptr) to.format = format, to.format_from = schema;
    }
  }
  for (const auto* value : algebra_.excluded_values(schemas, string_type))
    to.excluded.emplace(value->get_string());
  to.least = largest(schemas, "minLength");
  to.most = smallest(schemas, "maxLength");
}

const regex_node* schema_writer::regex_of(schema_ptr from, std::string_view keyword,
                                          std::string_view pattern) {
  const auto& regex = algebra_.facts().regex(pattern);
  static const regex_node nothing{};
  if (regex) return &*regex;
  algebra_.refuse(regex.error().code(), from, keyword, regex.error().message());
  return &nothing;
}

bool schema_writer::spend_places(std::size_t count) {
  if (num_places_ + count > most_schema_cost.places) return false;
  num_places_ += count;
  return true;
}

std::string schema_writer::automaton_rules(const text_automaton& automaton,
                                           const std::function<std::string(std::uint64_t)>& ending) {
  const auto& states = automaton.states();
  if (!states.front().is_alive) return "";
  const std::string prefix = new_name("x") + "_";
  const auto name = [&](std::uint32_t to) { return " " + prefix + std::to_string(to); };
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!states[i].is_alive) continue;
    std::string body = states[i].is_wanted ? ending(states[i].obeyed) : "";
    for (const auto& [on, to] : states[i].edges) {
      if (complement(on).empty()) {
        add_alternative(body, json_plain_characters() + name(to));
        add_alternative(body, R"("\\" json_escape)" + name(to));
        continue;
      }
      for (const auto& spelling : json_spellings(on)) add_alternative(body, spelling + name(to));
      // A single character of a literal may be written in ASCII, too.
      if (on.size() != 1 || on[0].first != on[0].last || on[0].first < 0x80 || on[0].first > 0xFFFF) continue;
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", on[0].first);
      std::string spelled;
      append_literal(spelled, escape.data());
      add_alternative(body, spelled + name(to));
    }
    new_name("");
    define(prefix + std::to_string(i), body);
  }
  return prefix + "0";
}

std::string schema_writer::limited_text(const text_terms& terms, schema_ptr from, std::string_view keyword) {
  constexpr std::size_t max_states = 160;
  constexpr std::uint32_t max_counted = 128;
  if (terms.num_conditions() > max_text_conditions)
    algebra_.refuse(errc::unsupported, from, keyword, "more than 32 conditions on a text are not supported");
  if (failure()) return "";
  const auto least = terms.least.value_or(0);
  std::vector<text_condition> conditions;
  std::uint64_t wanted = 0;
  const auto put = [&](text_condition condition, bool is_wanted) {
    if (is_wanted) wanted |= std::uint64_t{1} << conditions.size();
    conditions.push_back(condition);
  };
  for (const auto& [regex, is_wanted] : terms.regexes) put({.regex = regex}, is_wanted);
  if (terms.format != nullptr) put({.regex = regex_of(from, keyword, terms.format->pattern)}, true);
  if (!terms.excluded.empty()) put({.texts = &terms.excluded}, false);
  if (least > 0) put({.min_length = least}, true);
  // The pattern of a format is exact enough for short texts only.
  auto most = terms.most;
  if (terms.format != nullptr) most = std::min(most.value_or(60), 60U);
  if (failure()) return "";
  const auto make = [&] {
    return text_automaton::make(
        conditions, [&](std::uint64_t obeyed) { return obeyed == wanted; }, max_states,
        algebra_.facts().automaton_work());
  };
  const auto quoted = [&](const text_automaton& automaton) {
    const std::string begin = automaton_rules(automaton, [](std::uint64_t) { return R"("\"")"; });
    return begin.empty() ? begin : R"("\"" )" + begin;
  };
  auto automaton = make();
  if (automaton && most && automaton->longest_text().value_or(unbounded) > *most) {
    // With a character budget, the library ends a text where the grammar allows the end. This always works if
    // every beginning that may not end is shorter than the budget.
    const bool may_end = automaton->longest_beginning().value_or(unbounded) < *most;
    if (*most <= max_counted) {
      put({.max_length = *most}, true);
      if (auto counted = make(); counted && spend_places(counted->states().size())) return quoted(*counted);
    }
    if (!may_end) automaton.reset();
    if (may_end && spend_places(automaton->states().size())) {
      const std::string begin = automaton_rules(*automaton, [](std::uint64_t) { return "\"\""; });
      return begin.empty() ? begin : R"("\"" )" + budgeted(begin, *most) + R"( "\"")";
    }
  } else if (automaton && spend_places(automaton->states().size())) {
    return quoted(*automaton);
  }
  if (conditions.size() == 1 && !most && terms.regexes.size() == 1 && wanted == 1) {
    auto body = to_ebnf(*terms.regexes.front().first, text_form::json_string, false,
                        [&](const std::string& rule) { return add_rule("c", rule); });
    if (body) return R"("\"" )" + *body + R"( "\"")";
    algebra_.refuse(body.error().code(), from, keyword, body.error().message());
  }
  algebra_.refuse(errc::unsupported, from, keyword,
                  "beside the other limits of the text it is not supported");
  return "";
}

std::string schema_writer::budgeted(const std::string& rule, std::uint32_t max_characters) {
  const std::string name = new_name("b");
  define(name + "[max_chars=" + std::to_string(max_characters) + "]", rule);
  return name;
}

std::string schema_writer::text(const conjunction& schemas) {
  text_terms terms;
  add_text_terms(schemas, terms);
  if (failure()) return "";
  text_key key(terms.regexes, terms.format, terms.excluded, terms.least, terms.most);
  const auto known = texts_.find(key);
  if (known != texts_.end()) return known->second;
  return texts_.emplace(std::move(key), new_text(schemas, terms)).first->second;
}

std::string schema_writer::new_text(const conjunction& schemas, const text_terms& terms) {
  const auto least = terms.least;
  const auto most = terms.most;
  if (most && least.value_or(0) > *most) return "";
  if (terms.format != nullptr && terms.regexes.empty() && terms.excluded.empty() &&
      least.value_or(0) <= terms.format->min_length) {
    const auto body =
        limited_format(*terms.format, most.value_or(unbounded),
                       [&](const std::string& rule, std::uint32_t max) { return budgeted(rule, max); });
    if (!body.empty()) return R"("\"" )" + body + R"( "\"")";
  }
  if (!terms.regexes.empty() || terms.format != nullptr || (!terms.excluded.empty() && (least || most))) {
    schema_ptr from = terms.format_from;
    std::string_view keyword = "format";
    for (const auto& one : schemas)
      if (member(one.schema, "pattern") != nullptr) from = one.schema, keyword = "pattern";
    if (from == nullptr) from = schemas.front().schema, keyword = "";
    return limited_text(terms, from, keyword);
  }
  if (!terms.excluded.empty()) {
    auto other = text_except(terms.excluded);
    if (other.empty())
      algebra_.refuse(errc::unsupported, schemas.front().schema, "",
                      "so many negations of texts are not supported");
    return other;
  }
  if (!least && !most) return "json_string";
  return counted_text(schemas, least.value_or(0), most);
}

std::string schema_writer::counted_text(const conjunction& schemas, std::uint32_t least,
                                        std::optional<std::uint32_t> most) {
  constexpr std::uint32_t max_counted = 128;
  // There is a rule for each place. The masks of all rules are computed beforehand, which takes 20 ms a rule
  // with a vocabulary of 152k. A counted repetition of a rule would take milliseconds at every step, and
  // XGrammar's masks of a counted set of characters are wrong (docs/decisions/0589). A long text has a rule
  // for each place up to `least`; a character budget limits the rest (docs/decisions/0621).
  const bool is_long = most && (*most > max_counted || !spend_places(*most));
  const auto num_places = most && !is_long ? *most : least;
  if (num_places > max_counted || ((is_long || !most) && !spend_places(least))) {
    algebra_.refuse(errc::unsupported, schemas.front().schema, "minLength",
                    "above 128, or in so many places, it is not supported");
    return "";
  }
  std::string rest = "json_rest";
  if (is_long)
    rest = budgeted("json_characters", *most - least) + R"( "\"")";
  else if (most)
    rest = R"("\"")";
  const std::string plain = json_plain_characters() + " ";
  for (auto place = num_places; place-- > 0;) {
    const std::string end = place >= least ? R"("\"" | )" : "";
    rest = add_rule("l", end + plain + rest + R"( | "\\" json_escape )" + rest);
  }
  return R"("\"" )" + rest;
}

} // namespace paceline::grammar
