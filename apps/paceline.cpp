#include "apps/bench/command_line.hpp"
#include "apps/build_info.hpp"
#include "apps/commands/model_flags.hpp"
#include "apps/commands/options.hpp"
#include "apps/exit_codes.hpp"

#include <CLI/CLI.hpp>

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
                 "beam search with so many hypotheses, in place of sampling (docs/beam_search.md)")
      ->check(CLI::Range(0, 16));
  app.add_option("--num-best", o.num_best, "hypotheses shown, at most --beam-width")
      ->check(CLI::Range(1, 16));
  app.add_option("--length-penalty", o.length_penalty,
                 "a hypothesis's score is its log-probability over its length to this power");
  app.add_option("--seed", o.seed, "the same seed gives the same text");
  app.add_option("--stop", o.stop, "text that ends the answer; may be repeated");
  app.add_flag("--ignore-eos", o.ignore_eos, "go on after the end-of-text token");
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"Paceline: exact speculative decoding, as a daemon, a library and a command line"};
  app.set_version_flag("--version", std::string(build_version()) + " (" + std::string(build_commit()) + ")");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 success; 1 failure while running; 2 wrong usage; 69 model missing or port taken; "
             "78 wrong configuration.");
  int code = exit_success;

  serve_options serve_o;
  auto* serve_c = app.add_subcommand("serve", "Serve models over HTTP and WebSocket");
  serve_c->add_option("--config", serve_o.config, "YAML file; config/README.md lists every option");
  serve_c->add_option("--model", serve_o.model,
                      "serve this model file (instead of, or over, the file's first model)");
  serve_c->add_option("--host", serve_o.host, "address to listen on");
  serve_c->add_option("--port", serve_o.port, "port; 0 picks a free one and prints it");
  serve_c->add_option("--threads", serve_o.threads, "CPU threads; 0: all cores");
  serve_c->add_option("--set", serve_o.set, "override an option: --set server.port=8080; may be repeated");
  serve_c->add_flag("--print-config", serve_o.print_config,
                    "print the effective configuration with its origins, and exit");
  serve_c->callback([&] { code = serve(serve_o); });

  std::string config_path;
  auto* check_c = app.add_subcommand("check-config", "Check a configuration file");
  check_c->add_option("file", config_path, "YAML file")->required();
  check_c->callback([&] { code = check_config(config_path); });

  run_options run_o;
  auto* run_c = app.add_subcommand("run", "Generate once, to standard output");
  add_generation(*run_c, run_o);
  run_c->add_option("--prompt", run_o.prompt, "the text to continue")->required();
  run_c->add_flag("--chat", run_o.chat, "the prompt is a message: apply the model's chat template");
  run_c->add_flag("--json", run_o.json,
                  "one JSON object: token ids, text, finish reason, timings, speculation");
  run_c
      ->add_flag("--trace", run_o.trace,
                 "show every round: drafted, accepted, rejected, recovered and bonus tokens")
      ->excludes("--json");
  run_c->callback([&] { code = run(run_o); });

  run_options chat_o;
  chat_o.max_tokens = 512;
  auto* chat_c = app.add_subcommand("chat", "Talk to a model in the terminal");
  add_generation(*chat_c, chat_o);
  chat_c->callback([&] { code = chat(chat_o); });

  inspect_options inspect_o;
  auto* inspect_c = app.add_subcommand("inspect", "Show a model file: metadata, tensors, memory plan");
  inspect_c->add_option("file", inspect_o.path, "GGUF file or Hugging Face directory")->required();
  inspect_c->add_option("--ctx-size", inspect_o.context_length,
                        "positions to plan memory for; 0: the model's own");
  inspect_c->add_option("--sequences", inspect_o.sequences, "requests at once to plan memory for");
  add_kv_dtype(*inspect_c, inspect_o.kv_dtype);
  inspect_c->add_flag("--json", inspect_o.json, "one JSON object");
  inspect_c->callback([&] { code = inspect(inspect_o); });

  tokenize_options tokenize_o;
  auto* tokenize_c = app.add_subcommand("tokenize", "Text to token ids: a line in, an array of ids out");
  tokenize_c->add_option("--model", tokenize_o.model, "GGUF file, Hugging Face directory or tokenizer.json")
      ->required();
  tokenize_c->add_flag("--no-bos", tokenize_o.no_bos,
                       "without the tokens that the vocabulary puts around a text");
  tokenize_c->add_flag("--plain", tokenize_o.plain, "special tokens' spellings are text");
  tokenize_c->add_flag("--jsonl", tokenize_o.jsonl, "lines are JSON strings");
  tokenize_c->callback([&] { code = tokenize(tokenize_o); });

  render_options render_o;
  auto* render_c = app.add_subcommand(
      "render", "Render a chat template: a JSON object of variables a line in, a JSON string out");
  render_c->add_option("--template", render_o.template_file, "Jinja2 file")->required();
  render_c->add_flag("--jsonl", render_o.jsonl, "lines are JSON objects (the default)");
  render_c->add_flag("--plain-jinja2", render_o.plain_jinja2,
                     "as jinja2.Environment() renders, not as chat templates are rendered");
  render_c->callback([&] { code = render(render_o); });

  bench::add_commands(app, code, bench::joined(argc, argv));

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? exit_success : exit_usage;
  }
  return code;
}
