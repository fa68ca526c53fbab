#include "server/metrics/exposition.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace paceline::server {

void exposition::family(std::string_view name, std::string_view help, std::string_view type) {
  name_ = name;
  text_.append("# HELP ")
      .append(name)
      .append(" ")
      .append(help)
      .append("\n# TYPE ")
      .append(name)
      .append(" ")
      .append(type)
      .append("\n");
}

void exposition::append(std::string_view name, const label_list& labels, std::string_view value) {
  text_ += name;
  char separator = '{';
  for (const auto& [key, content] : labels) {
    text_ += separator;
    text_.append(key).append("=\"");
    for (const char c : content) {
      if (c == '\n')
        text_ += "\\n";
      else if (c == '"' || c == '\\')
        text_.append("\\").push_back(c);
      else
        text_ += c;
    }
    text_ += '"';
    separator = ',';
  }
  if (separator == ',') text_ += '}';
  text_.append(" ").append(value).append("\n");
}

std::string exposition::print(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 40> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

void exposition::add_histogram(const label_list& labels, const histogram& values) {
  const auto totals = values.cumulative();
  auto with_bound = labels;
  with_bound.emplace_back("le", "");
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const auto bound = i < values.bounds().size() ? print(values.bounds()[i]) : std::string("+Inf");
    with_bound.back().second = bound;
    append(name_ + "_bucket", with_bound, std::to_string(totals[i]));
  }
  append(name_ + "_sum", labels, print(values.sum()));
  append(name_ + "_count", labels, std::to_string(totals.back()));
}

} // namespace paceline::server
