#pragma once

#include "protocol/wire/api_error.hpp"

#include <optional>
#include <string>
#include <vector>

namespace boost::json {
class array;
class object;
} // namespace boost::json

namespace paceline::wire {

class field_reader;

/// A function the assistant called in an earlier turn.
struct tool_call {
  std::string id;
  std::string name;
  std::string arguments; ///< JSON text of one object
  friend bool operator==(const tool_call&, const tool_call&) = default;
};

/// One turn. Roles are those that templates know: system (developer too), user, assistant, tool.
struct chat_message {
  std::string role;
  std::optional<std::string> content; ///< text parts joined by line breaks; none only beside tool calls
  std::string name;
  std::vector<tool_call> tool_calls;
  std::string tool_call_id;
  friend bool operator==(const chat_message&, const chat_message&) = default;
};

/// Everything a chat template is given.
struct chat_prompt {
  std::vector<chat_message> messages;
  std::string tools; ///< JSON text of the array, empty = none
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking; ///< none: the template's own default
};

/// How many values the arguments of all calls of a conversation may have: templates get them as a tree.
class argument_budget {
 public:
  /// Fails `reader`, of the message, when they are too many.
  void take(field_reader& reader, const chat_message& message);

 private:
  std::size_t num_values_ = 0;
};

/// OpenAI's `messages`. At least one; text only.
void read_messages(field_reader& reader, std::size_t max_messages, std::vector<chat_message>& out);

/// `tools` and `tool_choice` of chat and responses requests. The two spell a function differently (nested
/// under "function", or flat); the text kept is always the nested form, which templates expect.
void read_tools(field_reader& reader, std::string& out);

/// Text of a message or item: a string, or text parts of the given kinds. False after a failure.
bool read_content(field_reader& reader, std::optional<std::string>& out);

/// Variables for a chat template: messages, tools, add_generation_prompt, enable_thinking.
boost::json::object template_variables(const chat_prompt& prompt);

} // namespace paceline::wire
