#pragma once

#include "apps/commands/options.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"

#include <string_view>
#include <vector>

namespace paceline::apps {

/// Refuses a parameter whose flag has no effect without another one: 0, or the exit code, with a message on
/// standard error.
int refuse_stray_parameters(const run_options& options);

/// The request that the flags of `run` and `chat` describe.
generation_request make_request(const run_options& options, std::vector<token_id> prompt);

/// Writes to standard output at once.
void print_now(std::string_view text);

/// True if standard output is a terminal and NO_COLOR (no-color.org) is unset or empty.
bool wants_colour();

} // namespace paceline::apps
