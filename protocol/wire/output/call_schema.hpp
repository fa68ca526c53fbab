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
/// one; empty: any. `exact`: arguments match the tools' schemas; false: those of tools without `strict` are
/// any objects.
std::vector<function_schema> callable_functions(const std::string& tools, const std::string& function,
                                                bool exact);

/// The JSON schema of an output that is a call of one of `functions`: {"name": …, "arguments": {…}}.
std::string call_schema(const std::vector<function_schema>& functions);

} // namespace paceline::wire
