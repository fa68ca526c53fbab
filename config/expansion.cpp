#include "config/expansion.hpp"

#include <algorithm>

namespace paceline::config {

namespace {

error bad(std::string rule) { return error(errc::invalid_argument, std::move(rule)); }

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// Value of the text between "${" and "}".
expected<std::string> evaluate(std::string_view body, const environment& variables) {
  const auto colon = body.find(':');
  const auto name = body.substr(0, colon);
  const auto rest = colon == std::string_view::npos ? std::string_view{} : body.substr(colon);
  if (!is_name(name) || !(rest.empty() || rest.starts_with(":-") || rest.starts_with(":?")))
    return bad("'${" + std::string(body) + "}' is none of ${NAME}, ${NAME:-text} and ${NAME:?message}");
  const auto found = variables.find(name);
  const bool is_set = found != variables.end();
  if (is_set && found->second.find_first_of("\r\n") != std::string::npos)
    return bad("the value of the variable " + std::string(name) + " has a line break");
  if (is_set && (rest.empty() || !found->second.empty())) return found->second;
  if (rest.starts_with(":-")) return std::string(rest.substr(2));
  if (rest.starts_with(":?"))
    return bad("the variable " + std::string(name) + " is needed: " + std::string(rest.substr(2)));
  return bad("the variable " + std::string(name) + " is not set; give a default with ${" + std::string(name) +
             ":-...}");
}

} // namespace

expected<std::string> expand(std::string_view text, const environment& variables) {
  std::string out;
  for (;;) {
    const auto dollar = text.find('$');
    out.append(text.substr(0, dollar));
    if (dollar == std::string_view::npos) return out;
    text.remove_prefix(dollar + 1);
    if (text.starts_with('$')) {
      out += '$';
      text.remove_prefix(1);
    } else if (text.starts_with('{')) {
      const auto end = text.find('}');
      if (end == std::string_view::npos) return bad("'${' without '}'");
      auto value = evaluate(text.substr(1, end - 1), variables);
      if (!value) return value;
      out += *value;
      text.remove_prefix(end + 1);
    } else {
      return bad("a dollar sign is written $$");
    }
  }
}

void expand_all(node& root, std::string_view file_name, const environment& variables,
                std::vector<std::string>& errors) {
  if (root.type == node::kind::scalar) {
    if (auto text = expand(root.text, variables))
      root.text = *std::move(text);
    else
      errors.push_back(complain(root.place, file_name, {}, text.error().message()));
  }
  for (auto& item : root.items) expand_all(item, file_name, variables, errors);
  for (auto& e : root.entries) expand_all(e.value, file_name, variables, errors);
}

} // namespace paceline::config
