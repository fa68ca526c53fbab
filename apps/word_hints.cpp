#include "apps/word_hints.hpp"

#include "config/node.hpp"
#include "runtime/base/joined.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace paceline::apps {

namespace {

/// A flag of llama.cpp or vLLM, and the flag of the same meaning.
struct foreign_name {
  std::string_view flag;
  std::string_view here;
};

constexpr std::string_view set_max_running = "--set models.0.max_running=N";

constexpr foreign_name foreign_names[] = {{"--temp", "--temperature"},
                                          {"--predict", "--max-tokens"},
                                          {"--n-predict", "--max-tokens"},
                                          {"--n_predict", "--max-tokens"},
                                          {"-s", "--seed"},
                                          {"-sys", "--system"},
                                          {"--system-prompt", "--system"},
                                          {"-md", "--draft-model"},
                                          {"--draft-max", "--draft-length"},
                                          {"-ngl", "--device"},
                                          {"--gpu-layers", "--device"},
                                          {"--n-gpu-layers", "--device"},
                                          {"-ctk", "--kv-dtype"},
                                          {"-ctv", "--kv-dtype"},
                                          {"--cache-type-k", "--kv-dtype"},
                                          {"--cache-type-v", "--kv-dtype"},
                                          {"--kv-cache-dtype", "--kv-dtype"},
                                          {"--chat-template-file", "--chat-template"},
                                          {"--max-model-len", "--ctx-size"},
                                          {"--served-model-name", "--alias"},
                                          {"-np", set_max_running},
                                          {"--parallel", set_max_running},
                                          {"--max-num-seqs", set_max_running}};

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// The flags or the commands of `app`, as the user types them.
std::vector<std::string> names_of(const CLI::App& app, bool flags) {
  std::vector<std::string> names;
  if (flags)
    for (const auto* option : app.get_options())
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  else
    for (const auto* command : commands_of(app)) names.push_back(command->get_name());
  return names;
}

/// The commands that have a flag: "serve and top".
std::string commands_with(const CLI::App& app, const std::string& flag) {
  std::vector<std::string> found;
  for (const auto* command : commands_of(app))
    if (command->get_option_no_throw(flag) != nullptr) found.push_back(command->get_name());
  return listed(found);
}

/// `--port` of `--port=1`.
std::string name_in(const std::string& word) { return word.substr(0, word.find('=')); }

/// What `foreign_flag` returns for a word that `command` does not know.
std::string foreign_hint(const CLI::App& app, const CLI::App& command, const std::string& word) {
  const auto found = std::ranges::find(foreign_names, name_in(word), &foreign_name::flag);
  if (found == std::end(foreign_names)) return {};
  const std::string here(found->here);
  const auto flag = here.substr(0, here.find(' '));
  const auto unknown = "unknown flag " + word + "; ";
  if (command.get_option_no_throw(flag) != nullptr) return unknown + "here it is " + here;
  return unknown + "for " + commands_with(app, flag) + " it is " + here;
}

/// True if one letter is missing, superfluous or wrong, or two neighbours are swapped.
bool is_one_slip(std::string_view typed, std::string_view meant) {
  const auto [from, to] = std::ranges::mismatch(typed, meant);
  typed.remove_prefix(static_cast<std::size_t>(from - typed.begin()));
  meant.remove_prefix(static_cast<std::size_t>(to - meant.begin()));
  while (!typed.empty() && !meant.empty() && typed.back() == meant.back()) {
    typed.remove_suffix(1);
    meant.remove_suffix(1);
  }
  const bool is_swap = typed.size() == 2 && meant.size() == 2 && typed[0] == meant[1] && typed[1] == meant[0];
  return is_swap || (typed.size() <= 1 && meant.size() <= 1);
}

/// The one of `names` that was probably meant; empty: none.
std::string suggestion(const std::string& name, std::vector<std::string> names) {
  // These are so short, or so common, that they would be suggested for flags that mean something else.
  for (const auto* rarely_meant : {"--help", "--version"})
    if (std::erase(names, rarely_meant) > 0 && is_one_slip(name, rarely_meant)) return rarely_meant;
  return std::string(config::nearest_name(name, names));
}

/// The flag that a word without one probably belongs to.
std::string flag_of_stray(const CLI::App& command) {
  if (std::ranges::any_of(command.get_options(), &CLI::Option::get_positional)) return {};
  const auto lacks = [&](const char* flag) {
    const auto* option = command.get_option_no_throw(flag);
    return option != nullptr && option->count() == 0;
  };
  if (lacks("--model")) return "; the model is named by --model";
  if (lacks("--prompt")) return "; the prompt is given by --prompt";
  return {};
}

} // namespace

std::string foreign_flag(const CLI::App& app, const std::vector<std::string>& words) {
  const auto* command = &app;
  std::string hint;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const auto& word = words[i];
    const auto commands = commands_of(*command);
    const auto inner = std::ranges::find(commands, word, &CLI::App::get_name);
    if (inner != commands.end()) {
      command = *inner;
      continue;
    }
    if (!word.starts_with('-')) continue;
    const auto name = name_in(word);
    const auto* option = command->get_option_no_throw(name);
    if (option == nullptr) {
      if (hint.empty()) hint = foreign_hint(app, *command, word);
      continue;
    }
    if (option == command->get_help_ptr()) return {};
    // The next word is the flag's value, whatever it looks like.
    if (name == word && option->get_items_expected_min() > 0) ++i;
  }
  return hint;
}

std::string unknown_word(const CLI::App& app) {
  const auto words = app.remaining(true);
  if (words.empty()) return {};
  const auto is_flag = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  const auto flag = std::ranges::find_if(words, is_flag);
  const bool has_flag = flag != words.end();
  const auto& word = has_flag ? *flag : words.front();
  const auto* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const auto names = names_of(*command, has_flag);
  if (names.empty()) return "unknown argument " + word + flag_of_stray(*command); // there are no commands
  auto message = (has_flag ? "unknown flag " : "unknown command ") + word;
  if (const auto others = has_flag ? commands_with(app, name_in(word)) : ""; !others.empty())
    return message.append("; it belongs to ").append(others);
  const auto near = suggestion(name_in(word), names);
  if (!near.empty()) message.append("; did you mean ").append(near).append("?");
  return message;
}

} // namespace paceline::apps
