#include "apps/bench/command_line.hpp"
#include "apps/build_info.hpp"
#include "apps/commands/model_flags.hpp"
#include "apps/commands/options.hpp"
#include "apps/exit_codes.hpp"
#include "config/node.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace paceline::apps;

namespace {

void add_generation(CLI::App& app, run_options& o) {
  add_model(app, o.choice);
  app.add_option(
      "--drafter", o.choice.drafter,
      "auto (whatever is fastest), none, or a kind of drafter: ngram, suffix, lookahead, self, ... (docs/adding_a_drafter.md)");
  add_drafting(app, o.choice);
  add_rule(app, o);
  app.add_option("--max-tokens", o.max_tokens, "output tokens at most");
  app.add_option("--temperature", o.temperature, "0: always the most likely token");
  app.add_option("--top-k", o.top_k, "keep the k most likely tokens; 0: all");
  app.add_option("--top-p", o.top_p, "keep the most likely tokens that reach this probability");
  app.add_option("--min-p", o.min_p, "drop tokens below this share of the best one's probability");
  app.add_option("--beam-width", o.beam_width,
                 "beam search with this many hypotheses, instead of sampling (docs/beam_search.md)")
      ->check(CLI::Range(0, 16));
  app.add_option("--num-best", o.num_best, "hypotheses shown, at most --beam-width")
      ->check(CLI::Range(1, 16));
  app.add_option("--length-penalty", o.length_penalty,
                 "the score of a hypothesis is its log-probability divided by its length to this power");
  app.add_option("--seed", o.seed, "the same seed gives the same text");
  app.add_option("--stop", o.stop, "text that ends the answer; may be repeated");
  app.add_flag("--ignore-eos", o.ignore_eos, "continue after the end-of-text token");
}

/// A subcommand whose options live in its callback.
template <class Options>
std::pair<CLI::App*, std::shared_ptr<Options>>
add_command(CLI::App& app, const char* name, const char* description, int (*run)(const Options&), int& code) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand(name, description);
  command->callback([options, run, &code] { code = run(*options); });
  return {command, options};
}

void add_serve(CLI::App& app, int& code) {
  auto [c, o] =
      add_command<serve_options>(app, "serve", "Serve models over HTTP and WebSocket", &serve, code);
  c->add_option("--config", o->config, "YAML file; config/README.md lists every option");
  c->add_option("--model", o->model, "serve this model file (instead of, or over, the file's first model)");
  c->add_option(
      "--draft-head", o->draft_head,
      "directory or GGUF file of a trained head that drafts for the first model, as well as ngram and suffix");
  c->add_option("--host", o->host, "address to listen on");
  c->add_option("--port", o->port, "port; 0 picks a free one and prints it");
  c->add_option("--threads", o->threads, "CPU threads; 0: all cores");
  c->add_option("--set", o->set, "override an option: --set server.port=8080; may be repeated");
  c->add_flag("--print-config", o->print_config,
              "print the effective configuration with its origins, and exit");
}

void add_check_config(CLI::App& app, int& code) {
  auto [c, path] =
      add_command<std::string>(app, "check-config", "Check a configuration file", &check_config, code);
  c->add_option("file", *path, "YAML file; the models, templates and keys that it names are opened, too")
      ->required();
}

void add_run(CLI::App& app, int& code) {
  auto [c, o] = add_command<run_options>(app, "run", "Generate once, to standard output", &run, code);
  add_generation(*c, *o);
  c->add_option("--prompt", o->prompt, "the text to continue; -: standard input, without its last line break")
      ->required();
  c->add_flag("--chat", o->chat, "the prompt is a message: apply the model's chat template");
  c->add_flag("--json", o->json, "one JSON object: token ids, text, finish reason, timings, speculation");
  c->add_flag("--trace", o->trace,
              "show every round: drafted, accepted, rejected, recovered and bonus tokens")
      ->excludes("--json");
}

void add_chat(CLI::App& app, int& code) {
  auto [c, o] = add_command<run_options>(app, "chat", "Talk to a model in the terminal", &chat, code);
  o->max_tokens = 512;
  add_generation(*c, *o);
}

void add_inspect(CLI::App& app, int& code) {
  auto [c, o] = add_command<inspect_options>(
      app, "inspect", "Show a model or draft head: metadata, tensors, memory plan", &inspect, code);
  c->add_option("file", o->path, "GGUF file or Hugging Face directory")->required();
  c->add_option("--model", o->model,
                "the file is a draft head: load it for this target, to see whether it fits");
  c->add_option("--ctx-size", o->context_length, "positions to plan memory for; 0: the model's own");
  c->add_option("--sequences", o->sequences, "requests at once to plan memory for");
  add_kv_dtype(*c, o->kv_dtype);
  c->add_flag("--json", o->json, "one JSON object");
}

void add_tokenize(CLI::App& app, int& code) {
  auto [c, o] = add_command<tokenize_options>(
      app, "tokenize", "Convert text to token ids: reads lines, prints one array of ids per line", &tokenize,
      code);
  c->add_option("--model", o->model, "GGUF file, Hugging Face directory or tokenizer.json")->required();
  c->add_flag("--no-bos", o->no_bos,
              "omit the tokens that the vocabulary adds at the beginning or end of a text");
  c->add_flag("--plain", o->plain, "treat the spellings of special tokens as ordinary text");
  c->add_flag("--jsonl", o->jsonl, "lines are JSON strings");
}

void add_render(CLI::App& app, int& code) {
  auto [c, o] = add_command<render_options>(
      app, "render",
      "Render a chat template: reads one JSON object of variables per line, prints one JSON string each",
      &render, code);
  c->add_option("--template", o->template_file, "Jinja2 file")->required();
  c->add_flag("--jsonl", o->jsonl, "lines are JSON objects (the default)");
  c->add_flag("--plain-jinja2", o->plain_jinja2,
              "render as jinja2.Environment() does by default, not as chat templates are rendered");
}

/// The flags or the commands of `app`, as they are typed.
std::vector<std::string> names_of(const CLI::App& app, bool flags) {
  std::vector<std::string> names;
  if (flags)
    for (const auto* option : app.get_options())
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  else
    for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(command->get_name());
  return names;
}

/// "unknown flag --modle; did you mean --model?"; empty if no word is unknown. CLI11 itself says first what
/// is missing because of the unknown word, such as a command or a required flag.
std::string unknown_word(const CLI::App& app) {
  const auto words = app.remaining(true);
  if (words.empty()) return {};
  const auto is_flag = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  const auto flag = std::find_if(words.begin(), words.end(), is_flag);
  const auto& word = flag != words.end() ? *flag : words.front();
  const auto* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const auto names = names_of(*command, flag != words.end());
  if (names.empty()) return "unknown argument " + word; // of a command without commands of its own
  const auto near = paceline::config::nearest_name(word.substr(0, word.find('=')), names);
  auto message = (flag != words.end() ? "unknown flag " : "unknown command ") + word;
  if (!near.empty()) message.append("; did you mean ").append(near).append("?");
  return message;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"Paceline: exact speculative decoding, as a daemon, a library and a command line"};
  app.set_version_flag("--version", std::string(build_version()) + " (" + std::string(build_commit()) + ")");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 success; 1 failure while running; 2 wrong usage; 69 model missing or port taken; "
             "78 wrong configuration.");
  int code = exit_success;

  add_serve(app, code);
  add_check_config(app, code);
  add_run(app, code);
  add_chat(app, code);
  add_inspect(app, code);
  add_tokenize(app, code);
  add_render(app, code);
  bench::add_commands(app, code, bench::joined(argc, argv));

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    const auto unknown = unknown_word(app);
    if (unknown.empty()) return app.exit(e) == 0 ? exit_success : exit_usage;
    std::fprintf(stderr, "paceline: %s\nRun with --help for more information.\n", unknown.c_str());
    return exit_usage;
  }
  return code;
}
