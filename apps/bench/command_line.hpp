#pragma once

#include <CLI/App.hpp>

#include <string>

namespace paceline::apps::bench {

/// Adds `bench` and its subcommands to `app`. If `app.parse` finds one of them, it runs the bench and stores
/// the exit code in `code`; otherwise `code` is not changed. `code` must live as long as `app`, which owns
/// the option objects. JSON reports include `command_line`, so that a measurement can be repeated.
void add_commands(CLI::App& app, int& code, const std::string& command_line);

/// The program's name and arguments, separated by spaces and quoted for a shell.
std::string joined(int argc, char** argv);

} // namespace paceline::apps::bench
