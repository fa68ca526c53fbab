#pragma once

#include <filesystem>
#include <histedit.h>
#include <string>

namespace paceline::apps {

/// Sets the size of a history, and makes it drop an entry that repeats the previous one.
void prepare_history(History* entries);

/// Adds the entries of `file`, if there is one.
void load_history(History* entries, const std::filesystem::path& file);

/// Appends a message to `file`, which other chats may have changed meanwhile. If the file does not exist, it
/// is created, readable by its owner only.
void add_to_history(const std::filesystem::path& file, const std::string& message);

/// $XDG_STATE_HOME/paceline/chat_history, by default in ~/.local/state; empty if there is no home.
std::filesystem::path history_file();

} // namespace paceline::apps
