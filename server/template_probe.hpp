#pragma once

#include "protocol/wire/output/output_format.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/output_parsers.hpp"
#include "runtime/tokenizer/chat_template/chat_template.hpp"
#include "runtime/tokenizer/chat_template/request_variables.hpp"
#include "server/backend.hpp"

#include <boost/json/object.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace paceline::server {

/// Renders a chat template. `asked` has the members messages, tools and add_generation_prompt, and the
/// request's own template arguments.
using chat_renderer = std::function<expected<std::string>(boost::json::object asked)>;

/// Renders `chat` with the variables of `asked`, as in `chat_renderer`.
expected<std::string> render_chat(const tokenizer::chat_template& chat,
                                  const tokenizer::special_spellings& spellings, boost::json::object asked);

/// The properties of a model that its chat template shows.
struct template_traits {
  bool takes_tools = false;              ///< the name of a tool appears in the prompt
  call_syntax calls = call_syntax::none; ///< syntax in which the template writes earlier calls
  template_reasoning reasoning;
  wire::reasoning_markers thoughts; ///< the markers of thoughts in its prompts; empty: none are known
};

/// Finds the traits by rendering short conversations. If the template refuses a conversation, the traits that
/// this conversation would show keep their defaults.
template_traits probe_template(const chat_renderer& render);

/// How the outputs of a model with such a template are parsed. `call_parser` and `reasoning_parser` are the
/// values of the options `tool_call_parser` and `reasoning_parser`.
wire::output_format output_format_of(const template_traits& traits, std::string_view call_parser,
                                     std::string_view reasoning_parser);

} // namespace paceline::server
