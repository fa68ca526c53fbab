#pragma once

#include <filesystem>
#include <histedit.h>
#include <string>

namespace paceline::apps {

/// Sets the size of a history. An entry that repeats the one before is dropped.
void prepare_history(History* entries);

/// Adds the entries of `file`, if there is one.
void load_history(History* entries, const std::filesystem::path& file);

/// Adds a message to `file`, behind what other chats have added meanwhile. The file is created, readable by
/// its owner only, if it does not exist.
void add_to_history(const std::filesystem::path& file, const std::string& message);

/// $XDG_STATE_HOME/paceline/chat_history, by default in ~/.local/state; empty if there is no home.
std::filesystem::path history_file();

} // namespace paceline::apps
