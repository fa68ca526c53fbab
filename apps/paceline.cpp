#include "apps/bench/command_line.hpp"
#include "apps/build_info.hpp"
#include "apps/commands/model_flags.hpp"
#include "apps/commands/options.hpp"
#include "apps/exit_codes.hpp"
#include "apps/word_hints.hpp"

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
      "auto (whatever is fastest; default, unless --draft-model or --draft-head is given), none, or a kind of drafter: ngram, suffix, lookahead, self, ... (docs/adding_a_drafter.md)");
  add_drafting(app, o.choice);
  add_rule(app, o);
  app.add_option("-n,--max-tokens", o.max_tokens, "output tokens at most");
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
  add_seed(app, o.seed);
  app.add_option("--stop", o.stop, "text that ends the answer; may be repeated")->default_str("");
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
  c->add_option("-m,--model", o->model,
                "serve this model file (instead of, or over, the file's first model)");
  c->add_option("-a,--alias", o->alias,
                "name of the model in the API; further names, after commas, are understood, too");
  c->add_option("-c,--ctx-size", o->context_length,
                "positions that one request may use; 0: the model's own, at most 8192");
  c->add_option(
      "--draft-model,--model-draft", o->draft_model,
      "GGUF file of a smaller model that drafts for the first model, as well as its other drafters");
  c->add_option("--draft-head", o->draft_head,
                "directory or GGUF file of a trained head that drafts, in the same way (docs/drafters.md)");
  c->add_option(
      "--drafter", o->drafter,
      "drafter of requests that name none: auto (whatever is fastest; default), none, the name of one, "
      "or a kind");
  c->add_option(
       "--api-key", o->api_keys,
       "clients must send this key; several with commas, or by repeating the flag. Other users of this "
       "machine can see it: server.api_keys_file names a file instead")
      ->take_all()
      ->default_str("");
  c->add_option("--host", o->host, "address to listen on");
  c->add_option("--port", o->port, "port; 0 picks a free one and prints it");
  c->add_option("-t,--threads", o->threads, "CPU threads; 0: all cores");
  c->add_option("--device", o->device,
                "device that runs the first model: auto (default), cpu, or a GPU as cuda:0 or cuda:0/fast");
  c->add_option("--kv-dtype", o->kv_dtype,
                "element type of the first model's KV cells: f16 (default), f32, bf16 or q8");
  c->add_option("--chat-template", o->chat_template,
                "file of a template that replaces the first model's own; chatml: the built-in one");
  c->add_option("--log-level", o->log_level,
                "least severe level that is logged: debug, info (default), warning, error or off");
  c->add_option("--set", o->set, "override an option: --set server.port=8080; may be repeated")
      ->default_str("");
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
  c->add_option("-p,--prompt", o->prompt,
                "a message, if the model has a chat template, otherwise text to continue; -: standard input, "
                "without its last line break")
      ->required();
  auto* raw = c->add_flag("--raw", o->raw, "the prompt is text to continue, whatever template the model has");
  c->add_flag("--chat", o->chat, "the prompt is a message; an error if the model has no chat template")
      ->excludes(raw);
  c->add_option("--system", o->system, "system prompt before the message")->excludes(raw);
  c->add_option("-a,--alias", o->alias, "name of the model in --json");
  c->add_flag("--json", o->json, "one JSON object: token ids, text, finish reason, timings, speculation");
  c->add_flag("--trace", o->trace,
              "show every round: drafted, accepted, rejected, recovered and bonus tokens")
      ->excludes("--json");
}

void add_chat(CLI::App& app, int& code) {
  auto [c, o] = add_command<chat_options>(app, "chat", "Talk to a model in the terminal", &chat, code);
  o->max_tokens = 512;
  add_generation(*c, *o);
  c->add_option("--system", o->system, "system prompt: what the model is told before the conversation");
  c->add_flag("--trace", o->trace,
              "colour the tokens of replies by origin: drafted and accepted, recovered, bonus, plain");
  c->add_flag("!--no-history", o->keeps_history, "do not keep what is typed for the next time");
}

void add_top(CLI::App& app, int& code) {
  auto [c, o] = add_command<top_options>(
      app, "top", "Show what a running daemon does: streams, rounds, acceptance, tokens per second, KV pools",
      &top, code);
  c->add_option("url", o->url, "address of the daemon");
  c->add_option("--api-key", o->api_key,
                "a key of the daemon, if metrics need one; other users see it in the list of processes")
      ->envname("PACELINE_API_KEY");
  c->add_option("--ca-file", o->ca_file, "certificates to trust, in PEM; default: those of the system");
  c->add_option("--interval", o->interval, "seconds between two looks, over which rates are taken")
      ->check(CLI::Range(0.1, 3600.0));
  c->add_flag("--once", o->once, "show one interval and end");
  c->add_flag("--json", o->json, "one JSON object a line");
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

/// The words after the program's name. "help run" means "run --help".
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  return words;
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "paceline: %s\nRun with --help for more information.\n", why.c_str());
  return exit_usage;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"Paceline: exact speculative decoding, as a daemon, a library and a command line"};
  app.set_version_flag("--version", std::string(build_version()) + " (" + std::string(build_commit()) + ")");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 success; 1 failure while running; 2 wrong usage; 69 model missing or port taken; "
             "78 wrong configuration.");
  int code = exit_success;

  app.option_defaults()->always_capture_default();
  add_serve(app, code);
  add_check_config(app, code);
  add_run(app, code);
  add_chat(app, code);
  add_top(app, code);
  add_inspect(app, code);
  add_tokenize(app, code);
  add_render(app, code);
  app.option_defaults()->always_capture_default(false); // lists and enumerators, which CLI11 shows badly
  bench::add_commands(app, code, bench::joined(argc, argv));

  app.name("paceline");
  auto words = words_of(argc, argv);
  if (const auto hint = foreign_flag(app, words); !hint.empty()) return refuse(hint);
  std::ranges::reverse(words); // as CLI11 expects them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    const auto unknown = unknown_word(app);
    if (unknown.empty()) return app.exit(e) == 0 ? exit_success : exit_usage;
    return refuse(unknown);
  }
  return code;
}
