#pragma once

#include <CLI/App.hpp>

#include <string>
#include <vector>

namespace paceline::apps {

/// For a flag that another program has and that is called differently here: "unknown flag -md; here it is
/// --draft-model". `words`: those after the program's name, as they were typed. The text is empty if none of
/// them is such a flag, or if one of them asks for help. To be called before `app.parse`, which would take
/// "-md small.gguf" for "-m d" and a stray word.
std::string foreign_flag(const CLI::App& app, const std::vector<std::string>& words);

/// After `app.parse` has failed: "unknown flag --modle; did you mean --model?", or which other commands have
/// the flag. The text is empty if every word is known. CLI11 itself would first report what is missing
/// because of the unknown word, such as a command or a required flag.
std::string unknown_word(const CLI::App& app);

} // namespace paceline::apps
