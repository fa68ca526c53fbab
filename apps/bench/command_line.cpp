#include "apps/bench/command_line.hpp"

#include "apps/bench/options.hpp"
#include "apps/commands/model_flags.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace paceline::apps::bench {

namespace {

/// A subcommand with the options of all benches; its options object lives in the callback.
template <class Options>
std::pair<CLI::App*, std::shared_ptr<Options>> add_bench(CLI::App& parent, const char* name,
                                                         const char* description, int (*run)(const Options&),
                                                         int& code, const std::string& command_line) {
  auto options = std::make_shared<Options>();
  options->command_line = command_line;
  auto* app = parent.add_subcommand(name, description);
  add_model(*app, options->choice);
  app->add_option("--repeats", options->repeats, "runs that count, after one warm-up run")
      ->check(CLI::Range(1, 1000));
  app->add_option("--seed", options->seed, "seed of generated prompts and of sampling");
  app->add_flag("--json", options->json, "print one JSON object");
  app->callback([options, run, &code] { code = run(*options); });
  return {app, options};
}

void add_doors(CLI::App& app, door_options& doors) {
  std::vector<std::pair<std::string, door_kind>> choices;
  for (const auto kind : {door_kind::http, door_kind::websocket, door_kind::engine})
    choices.emplace_back(name_of(kind), kind);
  app.add_option("--through", doors.through,
                 "through which interfaces requests go: http (a daemon, streamed; default), websocket (its "
                 "Responses mode), engine (a function call, which no client uses); several are compared")
      ->delimiter(',')
      ->transform(one_of(std::move(choices)));
  app.add_flag("--unstreamed", doors.unstreamed,
               "also run over HTTP with the reply in one piece, as the baseline of the comparison");
  app.add_option(
      "--pairs", doors.pairs,
      "groups of requests, each run with every compared setting; prompts of the file are reused if "
      "necessary, under another cache salt. 0: each prompt once");
  app.add_flag("--trace", doors.trace, "count rounds as well as events; this makes events larger");
}

void add_decode(CLI::App& parent, int& code, const std::string& command_line) {
  auto [c, o] = add_bench<decode_options>(parent, "decode", "Plain decoding: tokens per second", &decode,
                                          code, command_line);
  c->add_option("--tokens", o->tokens, "tokens to decode")->check(CLI::Range(2, 1 << 20));
  c->add_option("--prompt-tokens", o->prompt_tokens, "tokens of the prompt before them")
      ->check(CLI::Range(1, 1 << 20));
  c->add_option("--batch", o->batch, "requests at the same time")->check(CLI::Range(1, 256));
  c->add_flag("--roof", o->roof, "also measure, between the runs, how fast the device can read its memory");
}

void add_prefill(CLI::App& parent, int& code, const std::string& command_line) {
  auto [c, o] = add_bench<prefill_options>(parent, "prefill", "Prompt processing: tokens per second",
                                           &prefill, code, command_line);
  c->add_option("--prompt-tokens", o->prompt_tokens, "tokens of the prompt")->check(CLI::Range(1, 1 << 20));
}

void add_cost(CLI::App& parent, int& code, const std::string& command_line) {
  auto [c, o] = add_bench<cost_options>(
      parent, "cost",
      "V(T): time of a pass of T rows, relative to a pass of one row and to the device's limits", &cost, code,
      command_line);
  c->add_option("--rows", o->rows, "rows of each pass; the first is the baseline")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  c->add_option("--context", o->context, "positions before the rows")->check(CLI::Range(1, 1 << 20));
  c->add_option("--draft", o->draft, "also time a greedy draft of this many tokens after the context")
      ->check(CLI::Range(1, 64));
  c->add_option(
      "--draft-head", o->draft_heads,
      "also time this trained head: a draft, the capture of states, verification, and the speed-up at "
      "its family's published acceptance; may be repeated");
  c->add_option_function<std::string>(
       "--draft-weights",
       [options = o](const std::string& name) {
         options->draft_weights = name == "q8_0" ? device::tensor_type::q8_0 : device::tensor_type::q4_0;
       },
       "quantise its matrices when it is loaded")
      ->check(CLI::IsMember({"q8_0", "q4_0"}));
  c->add_option("--acceptance-length", o->acceptance_length,
                "tokens a round for that speed-up, instead of the published ones")
      ->check(CLI::Range(1.0, 64.0));
  c->add_flag("--by-op", o->by_op, "show the time of each operation (on a CPU)");
}

void add_serve(CLI::App& parent, int& code, const std::string& command_line) {
  auto [c, o] = add_bench<serve_bench_options>(
      parent, "serve", "Run a workload through a daemon: latencies, speed, acceptance; compares drafters",
      &serve, code, command_line);
  add_drafting(*c, o->choice);
  add_doors(*c, o->doors);
  c->add_option("--workload", o->workload, "JSON lines with \"messages\" or \"prompt\"")->required();
  c->add_option("--drafters", o->drafters,
                "drafters to compare; the first is the baseline. ngram/8: ngram with draft length 8")
      ->delimiter(',');
  c->add_option("--requests", o->requests, "prompts taken from the file; 0: all");
  c->add_option("--concurrency", o->concurrency, "requests at the same time")->check(CLI::Range(1, 256));
  c->add_option("--max-tokens", o->max_tokens, "output tokens at most")->check(CLI::Range(2, 1 << 20));
  c->add_option("--temperature", o->temperature, "0: always the most likely token");
}

void add_spec(CLI::App& parent, int& code, const std::string& command_line) {
  auto [c, o] = add_bench<spec_options>(
      parent, "spec",
      "Compare drafters, draft lengths and workloads: acceptance, measured and predicted speed-up", &spec,
      code, command_line);
  add_drafting(*c, o->choice);
  add_doors(*c, o->doors);
  c->add_option("--workload", o->workloads, "JSON lines with \"messages\" or \"prompt\"; several files")
      ->delimiter(',')
      ->required();
  c->add_option("--drafters", o->drafters, "drafters to compare with plain decoding")->delimiter(',');
  c->add_option("--lengths", o->lengths, "draft lengths of each drafter except auto")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  c->add_option("--overlap", o->overlap, "overlap modes to compare: off, groups, ahead, outcomes")
      ->delimiter(',')
      ->transform(one_of<overlap_request>({{"off", overlap_request::off},
                                           {"groups", overlap_request::groups},
                                           {"ahead", overlap_request::ahead},
                                           {"outcomes", overlap_request::outcomes}}));
  c->add_option("--concurrency", o->concurrency, "requests at the same time; may be several numbers")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  c->add_option("--requests", o->requests, "prompts taken from each file; 0: all");
  c->add_option("--max-tokens", o->max_tokens, "output tokens at most")->check(CLI::Range(2, 1 << 20));
  c->add_option("--temperature", o->temperature, "0: always the most likely token");
}

/// Within single quotes a shell changes nothing. A single quote itself is written outside of them.
std::string in_single_quotes(std::string_view word) {
  std::string out = "'";
  for (const char c : word) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

} // namespace

void add_commands(CLI::App& app, int& code, const std::string& command_line) {
  auto& parent = *app.add_subcommand("bench", "Measure speed");
  parent.require_subcommand(1);
  add_decode(parent, code, command_line);
  add_prefill(parent, code, command_line);
  add_cost(parent, code, command_line);
  add_serve(parent, code, command_line);
  add_spec(parent, code, command_line);
}

std::string joined(int argc, char** argv) {
  std::string out;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
      return std::isalnum(c) != 0 ||
             std::string_view("-_./=:,+").find(static_cast<char>(c)) != std::string_view::npos;
    });
    out += i == 0 ? "" : " ";
    out += plain ? word : in_single_quotes(word);
  }
  return out;
}

} // namespace paceline::apps::bench
