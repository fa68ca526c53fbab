#pragma once

#include <CLI/App.hpp>

#include <string>

namespace paceline::apps::bench {

/// Adds `bench` and its subcommands to `app`; a parsed one leaves its exit code in `code`. Options live as
/// long as the program. `command_line` goes into the reports: how to repeat a figure.
void add_commands(CLI::App& app, int& code, const std::string& command_line);

/// The program's arguments as one would type them.
std::string joined(int argc, char** argv);

} // namespace paceline::apps::bench
