#include "runtime/tokenizer/chat_template/chat_template.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace paceline::tokenizer {
namespace {

std::string rendered(std::string_view source, template_options options = {},
                     const boost::json::object& variables = {}, const render_limits& limits = {}) {
  auto parsed = chat_template::parse(source, std::move(options));
  if (!parsed) return "parse error: " + parsed.error().message();
  auto text = parsed->render(variables, limits);
  return text ? *text : "render error: " + text.error().message();
}

TEST(chat_template, errors_name_the_template_and_the_line) {
  template_options options;
  options.name = "models/x.jinja";
  EXPECT_EQ(rendered("a\nb\n{% if %}", options),
            "parse error: models/x.jinja:3: expected an expression, got 'end of statement block'");
  EXPECT_EQ(rendered("a\n{{ x.y }}", options), "render error: models/x.jinja:2: 'x' is undefined");
  EXPECT_EQ(rendered("{% for x in y %}", options),
            "parse error: models/x.jinja:1: unexpected end of template, expected 'else'");
  EXPECT_EQ(rendered("\n\n{{ 'a'|nope }}", options), "parse error: models/x.jinja:3: no filter named 'nope'");
  EXPECT_EQ(rendered("{% macro m() %}\n\n{% endmacro %}\n{{ m() + 1 }}", options),
            "render error: models/x.jinja:4: unsupported operand type(s) for +: 'str' and 'int'");
}

TEST(chat_template, an_exception_of_the_template_is_its_message) {
  EXPECT_EQ(rendered("\n{{ raise_exception('roles must alternate') }}"),
            "render error: chat template:2: roles must alternate");
}

TEST(chat_template, tags_that_reach_for_other_templates_are_refused_by_name) {
  for (const std::string tag :
       {"include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'", "autoescape true"}) {
    const auto parsed = chat_template::parse("{% " + tag + " %}");
    ASSERT_FALSE(parsed) << tag;
    EXPECT_EQ(parsed.error().code(), errc::unsupported);
    EXPECT_NE(parsed.error().message().find("'" + tag.substr(0, tag.find(' ')) + "'"), std::string::npos);
  }
}

TEST(chat_template, options_switch_between_transformers_and_plain_jinja2) {
  const std::string source = "a\n  {% if true %}\nb\n  {% endif %}\nc\n";
  EXPECT_EQ(rendered(source), "a\nb\nc");
  EXPECT_EQ(rendered(source, template_options::plain_jinja2()), "a\n  \nb\n  \nc");
  template_options kept;
  kept.keep_trailing_newline = true;
  EXPECT_EQ(rendered(source, kept), "a\nb\nc\n");
}

TEST(chat_template, tojson_is_that_of_the_chosen_environment) {
  const boost::json::object variables{{"x", {{"b", "<é>"}, {"a", 1}}}};
  EXPECT_EQ(rendered("{{ x|tojson }}", {}, variables), R"({"b": "<é>", "a": 1})");
  EXPECT_EQ(rendered("{{ x|tojson }}", template_options::plain_jinja2(), variables),
            R"({"a": 1, "b": "\u003c\u00e9\u003e"})");
}

TEST(chat_template, chat_extensions_are_absent_from_plain_jinja2) {
  const auto plain = template_options::plain_jinja2();
  EXPECT_EQ(rendered("{{ strftime_now is defined }}", plain), "False");
  EXPECT_EQ(rendered("{% generation %}{% endgeneration %}", plain),
            "parse error: chat template:1: encountered unknown tag 'generation'");
  EXPECT_EQ(rendered("{% break %}", plain), "parse error: chat template:1: encountered unknown tag 'break'");
}

TEST(chat_template, mutation_is_refused_as_the_immutable_sandbox_does_unless_allowed) {
  const std::string source = "{% set l = [3, 1] %}{% set _ = l.append(2) %}{% set _ = l.pop(0) %}{{ l }}";
  EXPECT_EQ(rendered(source),
            "render error: chat template:1: access to attribute 'append' of 'list' object is unsafe.");
  template_options options;
  options.allow_mutation = true;
  EXPECT_EQ(rendered(source, options), "[1, 2]");
}

TEST(chat_template, the_clock_is_given_from_outside) {
  render_limits limits;
  limits.clock = [] {
    wall_time time;
    time.fields.tm_year = 125;
    time.fields.tm_mday = 3;
    time.fields.tm_hour = 4;
    time.microseconds = 42;
    return time;
  };
  EXPECT_EQ(rendered("{{ strftime_now('%Y-%m-%d %H:%M:%S.%f %Z|%%') }}", {}, {}, limits),
            "2025-01-03 04:00:00.000042 |%");
}

TEST(chat_template, variables_shadow_functions_and_unknown_names_print_nothing) {
  EXPECT_EQ(rendered("{{ range }}|{{ nothing }}|{{ nothing is defined }}", {}, {{"range", "mine"}}),
            "mine||False");
}

TEST(chat_template, a_template_that_is_not_utf8_or_too_long_is_refused) {
  EXPECT_EQ(rendered("a\xff"), "parse error: chat template: the template is not UTF-8");
  EXPECT_EQ(rendered(std::string((1U << 20) + 1, 'a')),
            "parse error: chat template: the template is longer than 1 MiB");
}

TEST(chat_template, copies_render_alike_and_leave_each_other_alone) {
  const auto parsed = chat_template::parse("{% set x = (x or 0) + 1 %}{{ x }}");
  ASSERT_TRUE(parsed);
  const chat_template copy = *parsed;
  EXPECT_EQ(*parsed->render({{"x", 1}}), "2");
  EXPECT_EQ(*copy.render({}), "1");
  EXPECT_EQ(*parsed->render({{"x", 1}}), "2");
}

} // namespace
} // namespace paceline::tokenizer
