#pragma once

#include "protocol/wire/api_error.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace boost::json {
class array;
class object;
} // namespace boost::json

namespace paceline::wire {

class field_reader;
struct field_spec;
class json_view;
class json_writer;

/// A function the assistant called in an earlier turn.
struct tool_call {
  std::string id;
  std::string name;
  std::string arguments; ///< JSON text of one object
  friend bool operator==(const tool_call&, const tool_call&) = default;
};

/// One message. `role` is a role of chat templates: system, user, assistant or tool. OpenAI's developer is
/// read as system, function as tool.
struct chat_message {
  std::string role;
  std::optional<std::string> content; ///< text parts joined by line breaks; nullopt only with tool calls
  std::string name;
  std::vector<tool_call> tool_calls;
  std::string tool_call_id;
  std::string reasoning = {}; ///< the assistant's thoughts, for templates that include them
  friend bool operator==(const chat_message&, const chat_message&) = default;
};

/// Returns the arguments of `call` as an object, which refers to `call.arguments`. Arguments that are not the
/// JSON text of an object are first replaced by {}: a model may write such arguments, clients send them back
/// with its answer, and templates cannot render them. Fails `reader` if the object nests too deep.
json_view replace_broken_arguments(field_reader& reader, tool_call& call);

/// The value of `tool_choice`: "auto", "required", a function by name, or "none".
struct tool_demand {
  bool required = false;
  std::string function;   ///< the only one that may be called; empty: any
  bool forbidden = false; ///< `tool_choice` is "none": the tools are not offered to the model
};

/// The inputs of a chat template.
struct chat_prompt {
  std::vector<chat_message> messages;
  std::string tools;               ///< JSON text of the array, empty = none
  bool parallel_tool_calls = true; ///< false: at most one call in a reply
  tool_demand demand;
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking; ///< nullopt: the template's default
  std::string reasoning_effort;        ///< empty: the template's default
};

/// Largest number of JSON values in the call arguments of a conversation (`argument_budget`), and in its
/// tools. A tree of so many values needs about 16 MiB. A template exceeds its output limits before it has
/// written so many.
inline constexpr std::size_t max_tree_values = 400'000;

/// Bounds the number of JSON values in the tool-call arguments of a whole conversation, because templates
/// receive them as a tree.
class argument_budget {
 public:
  /// Counts the arguments of `message`, which `reader` reads. Fails `reader` if the budget is exceeded; the
  /// error names `field`.
  void take(field_reader& reader, const chat_message& message, std::string_view field = "tool_calls");

 private:
  std::size_t num_values_ = 0;
};

/// Number of JSON values in the arguments of all calls; `argument_budget` limits this number.
std::size_t count_argument_values(std::span<const chat_message> messages);

/// Bytes of the texts, thoughts and call arguments in `messages`.
std::size_t text_bytes(std::span<const chat_message> messages);

/// Reads OpenAI's `messages`: 1 to `max_messages` of them, with text only.
void read_messages(field_reader& reader, std::size_t max_messages, std::vector<chat_message>& out);

/// Reads `tools`; `read` reads one tool and appends it in the form that templates expect. Returns the JSON of
/// the list; empty if there are no tools, and after a failure.
std::string read_tool_list(field_reader& reader, void (*read)(field_reader&, json_writer&));

/// Reads `tools` and `tool_choice` of chat and responses requests. The two formats spell a function
/// differently (nested under "function", or flat). `out` always gets the nested form, which templates expect.
/// `parallel` gets `parallel_tool_calls`.
void read_tools(field_reader& reader, std::string& out, bool& parallel, tool_demand& demand);
/// The same for a prompt, from which tools are left out if `tool_choice` is "none".
void read_tools(field_reader& reader, chat_prompt& out);

/// Fails `reader` if `tools` cannot fulfil the demand.
void judge_tool_demand(field_reader& reader, const std::string& tools, const tool_demand& demand);

/// Text of a message or item: a string, or parts of the types `text`, `input_text`, `output_text` and
/// `refusal`, whose texts are joined by line breaks. Other parts are refused. If there is no `content`, `out`
/// is unchanged. Returns false after a failure.
bool read_content(field_reader& reader, std::optional<std::string>& out);
/// Like `read_content`, for the field `row`.
bool read_text_parts(field_reader& reader, const field_spec& row, std::optional<std::string>& out);

/// Variables for a chat template: messages, tools, add_generation_prompt, enable_thinking and its other name
/// thinking, reasoning_effort.
boost::json::object template_variables(const chat_prompt& prompt);

} // namespace paceline::wire
