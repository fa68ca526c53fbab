// Renders the tests' requests: one JSON object {"template", "variables", "options"} per line in, {"text"} or
// {"error"} per line out. The clock is fixed.
#include "runtime/tokenizer/chat_template/chat_template.hpp"
#include "runtime/tokenizer/chat_template/exact_json.hpp"

#include <boost/json.hpp>

#include <iostream>
#include <map>
#include <string>

namespace {

using paceline::tokenizer::chat_template;
using paceline::tokenizer::render_limits;
using paceline::tokenizer::template_options;
using paceline::tokenizer::wall_time;

/// 2024-07-06 09:08:07.654321, a Saturday.
wall_time fixed_time() {
  wall_time time;
  time.fields.tm_year = 124;
  time.fields.tm_mon = 6;
  time.fields.tm_mday = 6;
  time.fields.tm_hour = 9;
  time.fields.tm_min = 8;
  time.fields.tm_sec = 7;
  time.fields.tm_wday = 6;
  time.fields.tm_yday = 187;
  time.microseconds = 654321;
  return time;
}

template_options parse_options(const boost::json::object& given) {
  template_options options;
  if (given.contains("plain")) options = template_options::plain_jinja2();
  if (const auto* flag = given.if_contains("trim_blocks")) options.trim_blocks = flag->as_bool();
  if (const auto* flag = given.if_contains("lstrip_blocks")) options.lstrip_blocks = flag->as_bool();
  if (const auto* flag = given.if_contains("keep_trailing_newline"))
    options.keep_trailing_newline = flag->as_bool();
  if (const auto* flag = given.if_contains("allow_mutation")) options.allow_mutation = flag->as_bool();
  return options;
}

boost::json::object render(const boost::json::object& request,
                           std::map<std::string, paceline::expected<chat_template>>& parsed) {
  const std::string source(request.at("template").as_string());
  const auto& given = request.at("options").as_object();
  const std::string key = source + '\0' + boost::json::serialize(given);
  auto found = parsed.find(key);
  if (found == parsed.end())
    found = parsed.emplace(key, chat_template::parse(source, parse_options(given))).first;
  if (!found->second) return {{"error", found->second.error().message()}};
  render_limits limits;
  limits.clock = fixed_time;
  const auto text = found->second->render(request.at("variables").as_object(), limits);
  if (!text) return {{"error", text.error().message()}};
  return {{"text", *text}};
}

} // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::map<std::string, paceline::expected<chat_template>> parsed;
  for (std::string line; std::getline(std::cin, line);) {
    if (parsed.size() > 10000) parsed.clear();
    const auto request = paceline::tokenizer::parse_exact_json(line);
    if (!request) {
      std::cout << boost::json::serialize(boost::json::object{{"error", request.error().message()}}) << '\n';
      continue;
    }
    std::cout << boost::json::serialize(render(request->as_object(), parsed)) << '\n';
  }
}
