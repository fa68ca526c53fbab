#pragma once

#include <string>

namespace paceline::wire {

/// The JSON schema of an output that is a call: {"name": …, "arguments": {…}} of one of the tools. `tools`:
/// OpenAI's list as `read_tools` keeps it. `function`: the only one that may be called; empty: any. `exact`:
/// arguments match the tools' schemas; false: those of tools without `strict` are any objects.
std::string call_schema(const std::string& tools, const std::string& function, bool exact);

} // namespace paceline::wire
