#pragma once

#include "runtime/base/expected.hpp"

#include <filesystem>
#include <histedit.h>
#include <string>

namespace paceline::apps {

/// Sets the size of a history, and makes it drop an entry that repeats the previous one.
void prepare_history(History* entries);

/// Adds the entries of `file`. A file that is missing or empty has none. Error if it cannot be read.
expected<void> load_history(History* entries, const std::filesystem::path& file);

/// Appends a message to `file`, which other chats may have changed meanwhile. If the file does not exist, it
/// is created, readable by its owner only. After an error, the file is as before.
expected<void> add_to_history(const std::filesystem::path& file, const std::string& message);

/// $XDG_STATE_HOME/paceline/chat_history, by default in ~/.local/state; empty if there is no home.
std::filesystem::path history_file();

} // namespace paceline::apps
