#include "runtime/tokenizer/chat_template/request_variables.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace paceline::tokenizer {

namespace {

/// Names that a request's own arguments must not replace: the variables set by the server, and the functions
/// of templates.
bool is_reserved(std::string_view name) {
  static constexpr std::string_view reserved[] = {
      "messages",     "tools",         "documents", "add_generation_prompt",
      "bos_token",    "eos_token",     "pad_token", "unk_token",
      "range",        "dict",          "namespace", "cycler",
      "joiner",       "lipsum",        "self",      "raise_exception",
      "strftime_now", "chat_template", "tokenize"};
  return std::find(std::begin(reserved), std::end(reserved), name) != std::end(reserved);
}

boost::json::value or_null(std::optional<boost::json::array> list) {
  return list ? boost::json::value(*std::move(list)) : boost::json::value(nullptr);
}

} // namespace

expected<boost::json::object> request_variables(chat_request request, const special_spellings& spellings) {
  boost::json::object variables;
  variables["messages"] = std::move(request.messages);
  variables["tools"] = or_null(std::move(request.tools));
  variables["documents"] = or_null(std::move(request.documents));
  variables["add_generation_prompt"] = request.add_generation_prompt;
  const auto add = [&](std::string_view name, const std::optional<std::string>& spelling) {
    if (spelling) variables[{name.data(), name.size()}] = *spelling;
  };
  add("bos_token", spellings.bos);
  add("eos_token", spellings.eos);
  add("pad_token", spellings.pad);
  add("unk_token", spellings.unk);
  for (const auto& argument : request.template_arguments) {
    const std::string_view name(argument.key().data(), argument.key().size());
    if (is_reserved(name))
      return error{errc::invalid_argument,
                   "chat_template_kwargs: '" + std::string(name) + "' cannot be replaced"};
    variables[argument.key()] = argument.value();
  }
  return variables;
}

} // namespace paceline::tokenizer
