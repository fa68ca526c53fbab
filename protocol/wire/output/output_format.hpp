#pragma once

#include "runtime/base/output_parsers.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::wire {

/// How a model writes its thoughts: between two markers, at the beginning of the output.
struct reasoning_markers {
  std::string open;
  std::string close;
  explicit operator bool() const noexcept { return !close.empty(); }
};

/// How the outputs of a model are to be read.
struct output_format {
  reasoning_markers reasoning;           ///< empty: it does not reason
  call_syntax calls = call_syntax::none; ///< harmony: all of an output is in this format
};

/// The headers of harmony's messages, behind <|start|>assistant: of a call of `function`, and of an answer.
std::string harmony_call_header(const std::string& function);
inline constexpr const char* harmony_final_header = "<|channel|>final<|message|>";

/// What ends the text of a message in harmony; the last one begins the next message.
inline constexpr std::string_view harmony_ends[] = {"<|end|>", "<|return|>", "<|call|>", "<|start|>"};
/// True if a header in harmony can name the function: letters, digits and _ . - / :
bool is_harmony_name(std::string_view function) noexcept;

/// The syntax of the call in `rendered`, a conversation with a call of the function `name` as the model's
/// chat template writes it; none if it is none of those we read.
call_syntax call_syntax_of(std::string_view rendered, std::string_view name);
/// What marks thoughts in most models.
inline const reasoning_markers think_markers{"<think>", "</think>"};
/// What marks them in harmony.
inline const reasoning_markers harmony_markers{"<|channel|>analysis<|message|>", "<|end|>"};

/// True if a marker of the syntax is a special token in the vocabularies of its models. Their text is needed
/// then, whether the client wants to see special tokens or not.
bool marks_calls_by_special_tokens(call_syntax syntax) noexcept;

/// What the client's tools say about the parameters of functions: needed where a syntax does not distinguish
/// a number from a text.
class tool_signatures {
 public:
  /// `tools`: the JSON text of OpenAI's list, as `read_tools` keeps it.
  explicit tool_signatures(const std::string& tools);

  bool has(std::string_view function) const { return functions_.find(function) != functions_.end(); }
  /// True if the parameter takes texts alone; false also for one that the tools do not describe.
  bool takes_text(std::string_view function, std::string_view parameter) const;

 private:
  using parameters = std::map<std::string, bool, std::less<>>; ///< name to "takes texts alone"
  std::map<std::string, parameters, std::less<>> functions_;
};

/// What the output of one request is searched for.
struct output_plan {
  reasoning_markers reasoning;                  ///< empty: thoughts are not told apart
  bool begins_inside_reasoning = false;         ///< the prompt ends with the opening marker
  bool drops_reasoning = false;                 ///< thoughts are told apart and not returned
  bool in_harmony = false;                      ///< all of it is in that format, whatever is told apart
  call_syntax calls = call_syntax::none;        ///< none: calls are not told apart
  std::shared_ptr<const tool_signatures> tools; ///< with calls
  std::uint32_t max_calls = 128;                ///< output behind the last of so many calls is dropped
};

/// True if a prompt ends with the opening marker, so that the output begins with thoughts.
bool ends_inside_reasoning(std::string_view prompt, const reasoning_markers& markers);

} // namespace paceline::wire
