// Templates may come from untrusted requests and files: each of these must end in one clear error.
#include "runtime/tokenizer/chat_template/chat_template.hpp"

#include <gtest/gtest.h>

#include <pthread.h>
#include <string>

namespace paceline::tokenizer {
namespace {

std::string repeated(const std::string& part, std::size_t count) {
  std::string text;
  text.reserve(part.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

/// The error of parsing or rendering `source`; an empty message if both succeed.
error outcome(const std::string& source, const render_limits& limits = {}, template_options options = {}) {
  auto parsed = chat_template::parse(source, std::move(options));
  if (!parsed) return std::move(parsed).error();
  auto text = parsed->render({}, limits);
  return text ? error{errc::internal, ""} : std::move(text).error();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t stack_bytes = 8U << 20; // sanitizers make every frame several times larger
#else
constexpr std::size_t stack_bytes = 2U << 20;
#endif

/// Runs `body` on a thread with a stack of that size.
template <class Body>
void with_stack_of(std::size_t num_bytes, Body body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, num_bytes), 0);
  pthread_t thread;
  const auto run = [](void* held) -> void* {
    (*static_cast<Body*>(held))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &body), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

template_options mutable_options() {
  template_options options;
  options.allow_mutation = true;
  options.limit_ranges = false;
  return options;
}

TEST(template_limits, a_macro_that_calls_itself_ends_at_the_call_depth) {
  const error met = outcome("line one\n{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}");
  EXPECT_EQ(met.code(), errc::resource_exhausted);
  EXPECT_EQ(met.message(), "chat template:2: the macro 'm' is called too deeply");
}

TEST(template_limits, callers_blocks_and_recursive_loops_end_at_the_call_depth) {
  EXPECT_EQ(outcome("{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}").code(),
            errc::resource_exhausted);
  EXPECT_EQ(outcome("{% block b %}{{ self.b() }}{% endblock %}").code(), errc::resource_exhausted);
  EXPECT_EQ(outcome("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}").code(),
            errc::resource_exhausted);
}

TEST(template_limits, the_deepest_recursion_fits_the_stack_of_a_thread) {
  // Blocks and brackets as deep as the parser allows, in a macro that calls itself as often as allowed.
  const std::string source = "{% macro m() %}" + repeated("{% if 1 %}", 48) + "{{ " + repeated("[", 24) +
                             "m()|upper" + repeated("]", 24) + " }}" + repeated("{% endif %}", 48) +
                             "{% endmacro %}{{ m() }}";
  error met(errc::internal, "");
  with_stack_of(stack_bytes, [&] { met = outcome(source); });
  EXPECT_EQ(met.code(), errc::resource_exhausted) << met.message();
}

TEST(template_limits, a_call_depth_within_the_limit_is_served) {
  EXPECT_EQ(outcome("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(62) }}").message(),
            "");
}

TEST(template_limits, deep_nesting_in_the_source_is_refused_when_parsed) {
  for (const auto& [open, close] : {std::pair<std::string, std::string>{"(", ")"},
                                    {"[", "]"},
                                    {"{1:", "}"},
                                    {"-", ""},
                                    {"not ", ""},
                                    {"f(", ")"},
                                    {"1 if 1 else ", ""},
                                    {"a[", "]"}}) {
    const error met = outcome("{{ " + repeated(open, 20000) + "1" + repeated(close, 20000) + " }}");
    EXPECT_NE(met.message().find("nested deeper"), std::string::npos) << open << met.message();
  }
  EXPECT_NE(outcome(repeated("{% if 1 %}", 10000)).message().find("nested deeper"), std::string::npos);
  EXPECT_NE(outcome("{% set " + repeated("(", 100000) + "a").message().find("nested deeper"),
            std::string::npos);
}

TEST(template_limits, long_chains_are_refused_or_served_without_deep_recursion) {
  EXPECT_NE(outcome("{{ a" + repeated(".b", 100000) + " }}").message().find("nested deeper"),
            std::string::npos);
  EXPECT_NE(outcome("{{ 1" + repeated("|abs", 100000) + " }}").message().find("nested deeper"),
            std::string::npos);
  EXPECT_EQ(outcome("{{ 1" + repeated(" + 1", 50000) + " }}").message(), "");
  EXPECT_EQ(outcome("{{ 1" + repeated(" and 1", 50000) + " }}").message(), "");
  EXPECT_EQ(outcome("{% if 0 %}" + repeated("{% elif 0 %}", 20000) + "{% endif %}").message(), "");
}

TEST(template_limits, loops_end_at_the_step_budget) {
  const std::string nested = "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}";
  EXPECT_EQ(outcome(nested).code(), errc::resource_exhausted);
  EXPECT_NE(outcome("{{ range(10**9) }}").message().find("Range too big"), std::string::npos);
  EXPECT_EQ(outcome("{% for x in range(10**18) %}{% endfor %}", {}, mutable_options()).code(),
            errc::resource_exhausted);
  EXPECT_EQ(outcome("{{ range(10**18)|list }}", {}, mutable_options()).code(), errc::resource_exhausted);
}

TEST(template_limits, text_and_lists_of_any_size_asked_for_end_at_the_memory_budget) {
  for (const char* expression : {"'a' * 10**12",
                                 "[0] * 10**12",
                                 "(0,) * 10**30",
                                 "'ab' * 2**62",
                                 "'x'|center(10**12)",
                                 "'x'.ljust(10**12)",
                                 "'x'.zfill(2**60)",
                                 "'%1000000000d' % 1",
                                 "'%.1000000000d' % 1",
                                 "'%*d' % (10**9, 1)",
                                 "'{:1000000000}'.format(1)",
                                 "'a\tb'.expandtabs(10**9)",
                                 "'x'|indent(10**12)",
                                 "[1]|batch(10**9, 0)|list",
                                 "[]|slice(10**9)|list",
                                 "('a' * 10**6).replace('a', 'b' * 10**6)",
                                 "[1]|tojson(indent=10**9)",
                                 "('x' * 10**6)|list",
                                 "strftime_now('%99999999d')",
                                 "'%' * 10**6 % 1"})
    EXPECT_NE(outcome("{{ " + std::string(expression) + " }}").message(), "") << expression;
}

TEST(template_limits, growth_by_repetition_ends_at_the_memory_budget) {
  const std::string begin = "{% set ns = namespace(s='ab', l=[1, 2]) %}{% for i in range(90) %}";
  for (const char* step :
       {"{% set ns.s = ns.s ~ ns.s %}", "{% set ns.s = ns.s + ns.s %}", "{% set ns.l = ns.l + ns.l %}",
        "{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}", "{% set ns.s = ns.s|replace('a', 'aa') %}",
        "{% set ns.s = [ns.s, ns.s]|string %}"})
    EXPECT_EQ(outcome(begin + step + "{% endfor %}").code(), errc::resource_exhausted) << step;
}

TEST(template_limits, data_nested_by_the_template_is_compared_printed_and_hashed_safely) {
  const std::string begin = "{% set ns = namespace(v=[1], w=(1,)) %}{% for i in range(100000) %}";
  for (const char* use :
       {"{{ ns.v }}", "{{ ns.v|tojson }}", "{{ ns.v == ns.v[:] }}", "{{ ns.v < [ns.v] }}", "{{ {ns.w: 1} }}"})
    EXPECT_EQ(outcome(begin + "{% set ns.v = [ns.v] %}{% set ns.w = (ns.w,) %}{% endfor %}" + use).code(),
              errc::resource_exhausted)
        << use;
  // Shared parts: quick to create, but exponentially many to visit.
  const std::string shared =
      "{% set ns = namespace(v=[1], w=(1,)) %}{% for i in range(60) %}{% set ns.v = [ns.v, ns.v] %}"
      "{% set ns.w = (ns.w, ns.w) %}{% endfor %}";
  for (const char* use : {"{{ ns.v }}", "{{ ns.v|tojson }}", "{{ {ns.w: 1} }}"})
    EXPECT_EQ(outcome(shared + use).code(), errc::resource_exhausted) << use;
}

TEST(template_limits, a_namespace_that_contains_itself_is_no_leak_and_no_endless_print) {
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}").code(),
            errc::resource_exhausted);
  EXPECT_EQ(outcome("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", {}, mutable_options()).code(),
            errc::resource_exhausted);
  EXPECT_EQ(
      outcome("{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}", {}, mutable_options())
          .code(),
      errc::resource_exhausted);
}

TEST(template_limits, output_ends_at_its_limit_with_the_line) {
  render_limits limits;
  limits.max_output_bytes = 10;
  EXPECT_EQ(outcome("0123456789", limits).message(), "");
  const error met = outcome("01234\n{{ '567890' }}", limits);
  EXPECT_EQ(met.code(), errc::resource_exhausted);
  EXPECT_EQ(met.message(), "chat template:2: the text is longer than the 10 bytes allowed");
  EXPECT_EQ(outcome("{% for i in range(100000) %}0123456789abcdef{% endfor %}").code(),
            errc::resource_exhausted);
}

TEST(template_limits, numbers_beyond_128_bits_are_an_error) {
  EXPECT_EQ(outcome("{{ 2**126 }}").message(), "");
  for (const char* expression : {"2**127", "2**126 * 4", "10**40", "-(2**126) - 2**126 - 2**126",
                                 "1000000000000000000000000000000000000000", "(2**126 + (2**126 - 1)) + 1",
                                 "0|round(-10**30)", "5 // 0", "5 % 0", "1 / 0", "0 ** -1"}) {
    const error met = outcome("{{ " + std::string(expression) + " }}");
    EXPECT_TRUE(met.message().empty() == (std::string(expression) == "0|round(-10**30)"))
        << expression << met.message();
  }
}

TEST(template_limits, attributes_of_python_objects_are_out_of_reach) {
  for (const char* expression :
       {"''.__class__.__mro__", "self.__init__.__globals__", "cycler.__init__.__globals__",
        "range.__self__.x", "[].__class__.__base__.__subclasses__()", "'{0.__class__.__mro__}'.format(1)",
        "namespace.__init__.x", "messages.__class__.x", "()|attr('__class__')|attr('__base__')|attr('x').y",
        "joiner()._used.x", "lipsum.__globals__.os", "lipsum()"})
    EXPECT_NE(outcome("{{ " + std::string(expression) + " }}").message(), "") << expression;
}

TEST(template_limits, every_byte_cut_off_a_template_leaves_an_error_or_a_text) {
  const std::string source =
      "{%- macro m(a, b=[1, {'k': 2.5}]) -%}{{ a|default('x\\n') ~ b[0:1] }}{# c #}{%- endmacro %}"
      "{% raw %}{{{% endraw %}{% for x in range(3) if x is odd recursive %}{{ m(x, *[1], **{}) }}"
      "{% else %}{% set a, b = 1, (2) %}{% endfor %}";
  for (std::size_t size = 0; size <= source.size(); ++size) (void)outcome(source.substr(0, size));
}

} // namespace
} // namespace paceline::tokenizer
