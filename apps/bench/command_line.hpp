#pragma once

#include <CLI/App.hpp>

#include <string>

namespace paceline::apps::bench {

/// Adds `bench` and its subcommands to `app`; when one is parsed, it stores its exit code in `code`. Options
/// live until the program ends. `command_line` is included in reports, to repeat a figure.
void add_commands(CLI::App& app, int& code, const std::string& command_line);

/// The program's arguments as typed.
std::string joined(int argc, char** argv);

} // namespace paceline::apps::bench
