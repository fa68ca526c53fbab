#include "runtime/tokenizer/chat_template/chat_template.hpp"

#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/chat_template/evaluation/interpreter.hpp"
#include "runtime/tokenizer/chat_template/python/json_values.hpp"
#include "runtime/tokenizer/chat_template/syntax/parser.hpp"

namespace paceline::tokenizer {

namespace {

constexpr std::size_t max_source_bytes = 1U << 20;

error located(const template_options& options, const jinja::failure& met, int line) {
  return {met.code,
          options.name + ":" + std::to_string(met.line != 0 ? met.line : line) + ": " + met.message};
}

} // namespace

expected<chat_template> chat_template::parse(std::string_view source, template_options options) {
  if (source.size() > max_source_bytes)
    return error{errc::invalid_argument, options.name + ": the template is longer than 1 MiB"};
  if (!is_well_formed_utf8(source))
    return error{errc::invalid_argument, options.name + ": the template is not UTF-8"};
  try {
    auto tree = std::make_shared<jinja::template_tree>(jinja::parse_template(source, options));
    return chat_template(std::move(tree), std::move(options));
  } catch (const jinja::failure& met) {
    return located(options, met, 1);
  }
}

expected<std::string> chat_template::render(const boost::json::object& variables,
                                            const render_limits& limits) const {
  jinja::runtime rt(options_, limits);
  int line = 1;
  try {
    const jinja::value given = jinja::value_of(rt, variables);
    jinja::interpreter interpreter(*tree_, rt, given.as<jinja::dict_object>());
    try {
      return interpreter.run();
    } catch (const jinja::failure&) {
      line = interpreter.line();
      throw;
    }
  } catch (const jinja::failure& met) {
    return located(options_, met, line);
  }
}

} // namespace paceline::tokenizer
