#include "runtime/tokenizer/chat_template/render_jsonl.hpp"

#include "runtime/tokenizer/chat_template/exact_json.hpp"

#include <boost/json/serialize.hpp>

#include <istream>
#include <ostream>
#include <string>

namespace paceline::tokenizer {

namespace {

expected<boost::json::object> parse_variables(std::string_view line) {
  auto parsed = parse_exact_json(line);
  if (!parsed) return std::move(parsed).error();
  if (!parsed->is_object())
    return error{errc::invalid_argument, "the template variables must be a JSON object"};
  return std::move(parsed->get_object());
}

expected<std::string> render_line(std::string_view line, const chat_template& rendered,
                                  const render_limits& limits) {
  auto variables = parse_variables(line);
  if (!variables) return std::move(variables).error();
  return rendered.render(*variables, limits);
}

} // namespace

std::size_t render_jsonl(std::istream& in, std::ostream& out, const chat_template& rendered,
                         const render_limits& limits) {
  std::size_t num_failed = 0, number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto text = render_line(line, rendered, limits);
    if (text) {
      out << boost::json::serialize(boost::json::string(*text)) << '\n';
      continue;
    }
    ++num_failed;
    const error met = std::move(text).error().within("line " + std::to_string(number));
    boost::json::object shown{{"code", to_string(met.code())}, {"message", met.message()}};
    out << boost::json::serialize(boost::json::object{{"error", std::move(shown)}}) << '\n';
  }
  out.flush();
  return num_failed;
}

} // namespace paceline::tokenizer
