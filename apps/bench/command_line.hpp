#pragma once

#include <CLI/App.hpp>

#include <string>

namespace paceline::apps::bench {

/// Adds `bench` and its subcommands to `app`. Parsing a subcommand runs it and stores its exit code in
/// `code`. The option objects live until the program ends. `command_line` is included in reports, so that a
/// measurement can be repeated.
void add_commands(CLI::App& app, int& code, const std::string& command_line);

/// The program's arguments as typed.
std::string joined(int argc, char** argv);

} // namespace paceline::apps::bench
