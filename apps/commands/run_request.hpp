#pragma once

#include "apps/commands/options.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// Checks for flags that have no effect without another flag. Returns 0 if there are none; otherwise prints a
/// message to standard error and returns the exit code.
int refuse_stray_parameters(const run_options& options);

/// Draws a seed if --seed is -1, and prints it to standard error.
void settle_seed(run_options& options);

/// The request that the flags of `run` and `chat` describe, for a model with this context. Its output is
/// limited by --max-tokens and by the number of positions that the prompt leaves free. Error if the prompt
/// leaves none; the message advises to use `more_room` ("a shorter prompt, or a larger --ctx-size").
expected<generation_request> make_request(const run_options& options, std::vector<token_id> prompt,
                                          std::uint32_t context_length, std::string_view more_room);

/// A message that says that an output was cut at `num_tokens` tokens, and how to get more: with the flag
/// --max-tokens (-n) if its value `max_tokens` was the limit, otherwise with `more_room`.
std::string cut_notice(std::size_t num_tokens, std::uint32_t max_tokens, std::string_view more_room);

/// Writes to standard output and flushes it.
void print_now(std::string_view text);

/// True if standard output is a terminal and NO_COLOR (no-color.org) is unset or empty.
bool wants_colour();

} // namespace paceline::apps
