#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace paceline {

/// How a model writes the call of a function into its output.
enum class call_syntax : std::uint8_t {
  none,
  hermes,      ///< Qwen 2.5, Qwen 3, Hermes: <tool_call>{"name": …, "arguments": {…}}</tool_call>
  qwen3_coder, ///< Qwen3-Coder, Qwen 3.5:
               ///< <tool_call><function=f><parameter=p>…</parameter></function></tool_call>
  glm,         ///< GLM 4.5 to 4.7: <tool_call>f<arg_key>p</arg_key><arg_value>…</arg_value></tool_call>
  llama3,      ///< Llama 3: the output is {"name": …, "parameters": {…}}; several are separated by ";"
  mistral,     ///< [TOOL_CALLS][{"name": …, "arguments": {…}}] or [TOOL_CALLS]f[ARGS]{…}
  lfm2,        ///< LFM2: <|tool_call_start|>[f(p="…")]<|tool_call_end|>
  gemma4,      ///< Gemma 4: <|tool_call>call:f{p:<|"|>…<|"|>}<tool_call|>
  harmony,     ///< gpt-oss: the output is a list of messages, and a call is a message of its own:
               ///< <|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>
};

/// Names of the enumerators in the option `tool_call_parser`, in their order. The option also accepts "auto".
inline constexpr std::array<std::string_view, 9> call_syntax_names{
    "none", "hermes", "qwen3_coder", "glm", "llama3", "mistral", "lfm2", "gemma4", "harmony"};

} // namespace paceline
