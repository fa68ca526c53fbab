#pragma once

#include "apps/commands/options.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// Checks for flags that have no effect without another flag. Returns 0 if there are none; otherwise prints a
/// message to standard error and returns the exit code.
int refuse_stray_parameters(const run_options& options);

/// Draws a seed if --seed is -1, and prints it to standard error.
void settle_seed(run_options& options);

/// The request that the flags of `run` and `chat` describe.
generation_request make_request(const run_options& options, std::vector<token_id> prompt);

/// A message that says that an output was cut at `num_tokens` tokens, and which flag allows more.
std::string cut_notice(std::size_t num_tokens);

/// Writes to standard output and flushes it.
void print_now(std::string_view text);

/// True if standard output is a terminal and NO_COLOR (no-color.org) is unset or empty.
bool wants_colour();

} // namespace paceline::apps
