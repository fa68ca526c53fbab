#pragma once

#include <string>
#include <vector>

namespace paceline::wire {

/// A function and the JSON schema of its arguments.
struct function_schema {
  std::string name;
  std::string arguments;
};

/// The functions that may be called. `tools`: OpenAI's list as `read_tools` keeps it. `function`: the only
/// one that may be called; empty: any. With `exact` all arguments must match the tools' schemas; without it,
/// the arguments of tools without `strict` may be any object.
std::vector<function_schema> callable_functions(const std::string& tools, const std::string& function,
                                                bool exact);

/// The JSON schema of an output that is a call of one of `functions`: {"name": …, "arguments": {…}}.
std::string call_schema(const std::vector<function_schema>& functions);

} // namespace paceline::wire
