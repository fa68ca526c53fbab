// Formats of texts. Their rules are written as automata, whose masks are computed beforehand. A counted
// repetition of a rule would take milliseconds at every step.
#include "runtime/grammar/regex_syntax.hpp"
#include "runtime/grammar/schema_keywords.hpp"

#include <algorithm>
#include <array>

namespace paceline::grammar {

namespace {

#define PACELINE_DATE                                                                                        \
  R"(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))"
#define PACELINE_TIME R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))"

// Labels of host names are at most 63 characters long, and the part before '@' at most 64. A budget of 60 may
// be exceeded by one character, because a name does not end with '.' or '-'.
constexpr std::array<text_format, 14> formats{{
    {"date", "^" PACELINE_DATE "$", "json_date", 10, 10},
    {"time", "^" PACELINE_TIME "$", "json_time", 9, 24},
    {"date-time", "^" PACELINE_DATE "T" PACELINE_TIME "$", "json_date \"T\" json_time", 20, 35},
    {"duration",
     R"(^P(\d{1,4}W|(\d{1,4}Y(\d{1,4}M(\d{1,4}D)?)?|\d{1,4}M(\d{1,4}D)?|\d{1,4}D)(T(\d{1,4}H(\d{1,4}M(\d{1,4}S)?)?|\d{1,4}M(\d{1,4}S)?|\d{1,4}S))?|T(\d{1,4}H(\d{1,4}M(\d{1,4}S)?)?|\d{1,4}M(\d{1,4}S)?|\d{1,4}S))$)",
     "json_duration", 3, 35},
    {"email", R"(^[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+([.-][A-Za-z0-9]+)*$)", "json_email", 3,
     124},
    {"idn-email", R"(^[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+([.-][A-Za-z0-9]+)*$)", "json_email", 3,
     124},
    {"hostname", R"(^[A-Za-z0-9]+([.-][A-Za-z0-9]+)*$)", "json_host", 1, 62},
    {"idn-hostname", R"(^[A-Za-z0-9]+([.-][A-Za-z0-9]+)*$)", "json_host", 1, 62},
    {"ipv4", R"(^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$)", "json_ipv4", 7,
     15},
    {"ipv6",
     R"(^([0-9A-Fa-f]{1,4}(:[0-9A-Fa-f]{1,4}){7}|([0-9A-Fa-f]{1,4}(:[0-9A-Fa-f]{1,4}){0,2})?::([0-9A-Fa-f]{1,4}(:[0-9A-Fa-f]{1,4}){0,2})?)$)",
     "json_ipv6", 2, 39},
    {"uuid", R"(^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$)", "json_uuid",
     36, 36},
    {"uri",
     R"(^(https?|ftp)://[A-Za-z0-9]+([.-][A-Za-z0-9]+)*(:\d{1,4})?(/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*(\?[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?(#[A-Za-z0-9._~-]*)?$)",
     "json_uri", 7, unbounded},
    {"iri",
     R"(^(https?|ftp)://[A-Za-z0-9]+([.-][A-Za-z0-9]+)*(:\d{1,4})?(/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*(\?[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?(#[A-Za-z0-9._~-]*)?$)",
     "json_uri", 7, unbounded},
    {"json-pointer", R"(^(/([^~/]|~[01])*)*$)", "json_pointer", 0, unbounded},
}};

/// Formats that JSON Schema defines and that have no rule here.
constexpr std::array<std::string_view, 5> without_rule{"uri-reference", "iri-reference", "uri-template",
                                                       "relative-json-pointer", "regex"};

constexpr std::string_view rules = R"(json_digit4 ::= [0-9] [0-9] [0-9] [0-9]
json_day30 ::= "0" [1-9] | [12] [0-9] | "30"
json_date ::= json_digit4 "-" ("02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]) | ("04-" | "06-" | "09-" | "11-") json_day30 | ("01-" | "03-" | "05-" | "07-" | "08-" | "10-" | "12-") (json_day30 | "31"))
json_hour ::= [01] [0-9] | "2" [0-3]
json_decimals ::= [0-9] [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]? [0-9]?
json_time ::= json_hour ":" [0-5] [0-9] ":" [0-5] [0-9] ("." json_decimals)? ("Z" | [+\-] json_hour ":" [0-5] [0-9])
json_count ::= [0-9] [0-9]? [0-9]? [0-9]?
json_days ::= json_count "D"
json_months ::= json_count "M" json_days?
json_seconds ::= json_count "S"
json_minutes ::= json_count "M" json_seconds?
json_hours ::= "T" (json_count "H" json_minutes? | json_minutes | json_seconds)
json_duration ::= "P" (json_count "W" | (json_count "Y" json_months? | json_months | json_days) json_hours? | json_hours)
json_mailbox[max_chars=60] ::= json_mail_begin
json_mail_begin ::= [A-Za-z0-9_+\-] json_mail_rest
json_mail_rest ::= "" | [A-Za-z0-9_+\-] json_mail_rest | "." json_mail_begin
json_host[max_chars=60] ::= json_host_begin
json_host_begin ::= [A-Za-z0-9] json_host_rest
json_host_rest ::= "" | [A-Za-z0-9] json_host_rest | [.\-] json_host_begin
json_email ::= json_mailbox "@" json_host
json_byte ::= [0-9] | [1-9] [0-9] | "1" [0-9] [0-9] | "2" [0-4] [0-9] | "25" [0-5]
json_ipv4 ::= json_byte "." json_byte "." json_byte "." json_byte
json_group ::= [0-9A-Fa-f] [0-9A-Fa-f]? [0-9A-Fa-f]? [0-9A-Fa-f]?
json_groups ::= json_group (":" json_group (":" json_group)?)?
json_ipv6 ::= json_group ":" json_group ":" json_group ":" json_group ":" json_group ":" json_group ":" json_group ":" json_group | json_groups? "::" json_groups?
json_hex4 ::= [0-9A-Fa-f] [0-9A-Fa-f] [0-9A-Fa-f] [0-9A-Fa-f]
json_uuid ::= json_hex4 json_hex4 "-" json_hex4 "-" json_hex4 "-" json_hex4 "-" json_hex4 json_hex4 json_hex4
json_origin ::= ("http" "s"? | "ftp") "://" json_host (":" json_count)?
json_uri ::= json_origin json_uri_path
json_uri_path ::= "" | "/" json_uri_rest | "?" json_uri_query | "#" json_uri_fragment
json_uri_rest ::= "" | [A-Za-z0-9._~!$&'()*+,;=:@/\-] json_uri_rest | "?" json_uri_query | "#" json_uri_fragment
json_uri_query ::= "" | [A-Za-z0-9._~!$&'()*+,;=:@/\-] json_uri_query | "#" json_uri_fragment
json_uri_fragment ::= "" | [A-Za-z0-9._~\-] json_uri_fragment
json_pointer ::= "" | "/" json_pointer_step
json_pointer_step ::= "" | [ !#-\[\]-}\u007F-\U0010FFFF] json_pointer_step | "~" [01] json_pointer_step
)";

#undef PACELINE_DATE
#undef PACELINE_TIME

} // namespace

const text_format* format_named(std::string_view name) {
  for (const auto& format : formats)
    if (format.name == name) return &format;
  return nullptr;
}

bool is_annotation(std::string_view format) {
  return format_named(format) == nullptr && std::ranges::find(without_rule, format) == without_rule.end();
}

std::string limited_format(const text_format& format, std::uint32_t max_length,
                           const budget_adder& budgeted) {
  if (format.max_length <= max_length) return std::string(format.rule);
  // The largest size of the parts around the budgeted text. A budget may be exceeded by one character, as
  // explained above.
  constexpr std::uint32_t around_host = 8 + 61 + 5;
  if (format.rule == "json_email" && max_length > 8) {
    const auto part = (max_length - 3) / 2;
    return budgeted("json_mail_begin", part) + " \"@\" " + budgeted("json_host_begin", part);
  }
  if (format.rule == "json_host" && max_length > 2) return budgeted("json_host_begin", max_length - 1);
  if (format.rule == "json_uri" && max_length > around_host)
    return "json_origin " + budgeted("json_uri_path", max_length - around_host);
  return "";
}

std::string_view format_rules() { return rules; }

} // namespace paceline::grammar
