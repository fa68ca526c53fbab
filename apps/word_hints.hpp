#pragma once

#include <CLI/App.hpp>

#include <string>
#include <vector>

namespace paceline::apps {

/// A hint for a flag of llama.cpp or vLLM that has another name here: "unknown flag -md; here it is
/// --draft-model". `words` are the program's arguments, as typed. The text is empty if none of them is such a
/// flag, or if one of them asks for help. To be called before `app.parse`, which would read "-md small.gguf"
/// as "-m d" and a stray word.
std::string foreign_flag(const CLI::App& app, const std::vector<std::string>& words);

/// A hint for an unknown word, after `app.parse` has failed: "unknown flag --modle; did you mean --model?",
/// or which other commands have the flag. The text is empty if every word is known. CLI11's own message would
/// report a consequence of the unknown word, such as a missing command or required flag.
std::string unknown_word(const CLI::App& app);

} // namespace paceline::apps
