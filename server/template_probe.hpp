#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/output_parsers.hpp"
#include "runtime/tokenizer/chat_template/chat_template.hpp"
#include "runtime/tokenizer/chat_template/request_variables.hpp"
#include "server/backend.hpp"

#include <boost/json/object.hpp>

#include <functional>
#include <string>

namespace paceline::server {

/// Renders a chat template. `asked` has the members messages, tools and add_generation_prompt, and the
/// request's own template arguments.
using chat_renderer = std::function<expected<std::string>(boost::json::object asked)>;

/// Renders `chat` with the variables of `asked`, as in `chat_renderer`.
expected<std::string> render_chat(const tokenizer::chat_template& chat,
                                  const tokenizer::special_spellings& spellings, boost::json::object asked);

/// What a chat template tells about its model.
struct template_traits {
  bool takes_tools = false;              ///< the name of a tool appears in the prompt
  call_syntax calls = call_syntax::none; ///< in which the template writes a call of an earlier turn
  template_reasoning reasoning;
  bool shows_thoughts = false; ///< thoughts are between <think> and </think>
};

/// Finds the traits by rendering short conversations. A conversation that the template refuses tells nothing.
template_traits probe_template(const chat_renderer& render);

} // namespace paceline::server
