#pragma once

#include "runtime/base/output_parsers.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::wire {

/// The markers between which a model writes its thoughts, at the beginning of the output.
struct reasoning_markers {
  std::string open;
  std::string close;
  explicit operator bool() const noexcept { return !close.empty(); }
};

/// How the outputs of a model are to be read.
struct output_format {
  reasoning_markers reasoning;           ///< empty: the model does not reason
  call_syntax calls = call_syntax::none; ///< harmony: the whole output is in that format
};

/// The headers, after <|start|>assistant, of two kinds of messages in harmony: a call of `function`, and an
/// answer.
std::string harmony_call_header(const std::string& function);
inline constexpr const char* harmony_final_header = "<|channel|>final<|message|>";

/// The markers that end the text of a message in harmony. The last of them also begins the next message.
inline constexpr std::string_view harmony_ends[] = {"<|end|>", "<|return|>", "<|call|>", "<|start|>"};
/// True if a header in harmony can name the function: letters, digits and _ . - / :
bool is_harmony_name(std::string_view function) noexcept;

/// Recognizes the call syntax of a model. `rendered` is a conversation with a call of the function `name`, as
/// the model's chat template writes it. `call_syntax::none` if the syntax is not known.
call_syntax call_syntax_of(std::string_view rendered, std::string_view name);
/// The markers of thoughts in most models.
inline const reasoning_markers think_markers{"<think>", "</think>"};
/// The markers of thoughts in Mistral's models that reason.
inline const reasoning_markers mistral_think_markers{"[THINK]", "[/THINK]"};
/// The markers of thoughts in harmony.
inline const reasoning_markers harmony_markers{"<|channel|>analysis<|message|>", "<|end|>"};

/// True if a marker of the syntax is a special token of the models that use it. The text of special tokens is
/// then needed even if the client does not want to see them.
bool marks_calls_by_special_tokens(call_syntax syntax) noexcept;

/// The types of the parameters of the client's tools. They are needed for syntaxes that do not distinguish a
/// number from a string.
class tool_signatures {
 public:
  /// `tools`: the JSON text of OpenAI's list, as `read_tools` keeps it.
  explicit tool_signatures(const std::string& tools);

  bool has(std::string_view function) const { return functions_.find(function) != functions_.end(); }
  enum class value : std::uint8_t { any, text, text_or_null };
  /// The values that a parameter takes; `any` also for a parameter that the tools do not describe.
  value values_of(std::string_view function, std::string_view parameter) const;

 private:
  using parameters = std::map<std::string, value, std::less<>>; ///< by name
  std::map<std::string, parameters, std::less<>> functions_;
};

/// What is separated from the answer in the output of one request.
struct output_plan {
  reasoning_markers reasoning;           ///< empty: thoughts are not separated
  bool begins_inside_reasoning = false;  ///< the prompt ends with the model's opening marker
  bool drops_reasoning = false;          ///< thoughts are separated and not returned
  bool keeps_reasoning_in_text = false;  ///< thoughts are found and returned as text, with their markers
  bool in_harmony = false;               ///< the output is in harmony, whatever is separated
  call_syntax calls = call_syntax::none; ///< none: calls are not separated
  std::shared_ptr<const tool_signatures> tools; ///< signatures of the tools; for `calls`
  std::uint32_t max_calls = 128;                ///< the output ends after this number of calls
  bool ends_itself = false;                     ///< a constraint ends the output after the last call

  /// True if the server may have to end the output after the last call.
  bool may_be_stopped() const noexcept { return calls != call_syntax::none && !ends_itself; }
};

/// True if a prompt ends with the opening marker, so that the output begins with thoughts.
bool ends_inside_reasoning(std::string_view prompt, const reasoning_markers& markers);

} // namespace paceline::wire
