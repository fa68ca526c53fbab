#include "apps/commands/local_engine.hpp"
#include "apps/commands/trace_view.hpp"
#include "apps/exit_codes.hpp"
#include "apps/interrupt_watch.hpp"

#include "engine/served_model.hpp"
#include "protocol/wire/json_text.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <boost/json.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>

namespace paceline::apps {

namespace json = boost::json;

namespace {

/// The prompt's tokens, from a conversation through the chat template, or from plain text.
expected<std::vector<token_id>> prompt_tokens(const served_model& model, const run_options& options,
                                              const json::array& messages) {
  if (!options.chat) return model.vocabulary().encode(options.prompt);
  return chat_prompt(model, messages);
}

/// The prompt, from standard input if it is "-". Editors and `echo` end a text with a line break that is not
/// meant.
std::string read_prompt(const std::string& given) {
  if (given != "-") return given;
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// Rejects a parameter of a rule that was not selected, because it would have no effect: 0, or the exit code.
int refuse_stray_parameters(const run_options& o) {
  const char* stray = nullptr;
  if (o.lenience && o.rule != verification_rule::lenient) stray = "--lenience belongs to --rule lenient";
  if ((o.epsilon || o.delta) && o.rule != verification_rule::typical)
    stray = "--epsilon and --delta belong to --rule typical";
  if (o.beam_width == 0 && (o.num_best != 1 || o.length_penalty != 1))
    stray = "--num-best and --length-penalty belong to --beam-width";
  if (stray == nullptr) return exit_success;
  std::fprintf(stderr, "paceline: %s\n", stray);
  return exit_usage;
}

generation_request make_request(const run_options& options, std::vector<token_id> prompt) {
  generation_request r;
  r.prompt = std::move(prompt);
  r.sampling.temperature = options.temperature;
  r.sampling.top_k = options.top_k;
  r.sampling.top_p = options.top_p;
  r.sampling.min_p = options.min_p;
  r.sampling.seed = options.seed;
  r.beams = {options.beam_width, options.num_best, options.length_penalty};
  r.stop.max_tokens = options.max_tokens;
  r.stop.stop_strings = options.stop;
  r.stop.ignore_eos = options.ignore_eos;
  if (!options.choice.brings_drafter()) r.speculation.drafter = options.choice.drafter;
  r.speculation.draft_length = options.choice.draft_length;
  r.speculation.rule = options.rule;
  r.speculation.lenience = options.lenience.value_or(r.speculation.lenience);
  r.speculation.epsilon = options.epsilon.value_or(r.speculation.epsilon);
  r.speculation.delta = options.delta.value_or(r.speculation.delta);
  return r;
}

json::array ids(const std::vector<token_id>& tokens) {
  json::array out;
  for (auto t : tokens) out.push_back(t.value);
  return out;
}

double milliseconds(std::chrono::nanoseconds d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

json::object report(const run_options& options, const std::vector<token_id>& prompt, const generated& g) {
  json::object out{{"model", options.choice.model},
                   {"prompt_tokens", ids(prompt)},
                   {"tokens", ids(g.tokens)},
                   {"text", g.text},
                   {"finish_reason", std::string(name_of(g.last.finish))}};
  if (g.last.failure) out["error"] = g.last.failure->message();
  if (!g.last.hypotheses.empty()) {
    json::array hypotheses;
    for (const auto& one : g.last.hypotheses)
      hypotheses.push_back(json::object{{"tokens", ids(one.tokens)},
                                        {"text", one.text},
                                        {"finish_reason", std::string(name_of(one.finish))},
                                        {"logprob", one.logprob},
                                        {"score", one.score}});
    out["hypotheses"] = std::move(hypotheses);
  }
  if (const auto& t = g.last.timings) {
    const double decode = milliseconds(t->decode);
    json::object timings{{"queued_ms", milliseconds(t->queued)},
                         {"prefill_ms", milliseconds(t->prefill)},
                         {"decode_ms", decode}};
    if (g.tokens.size() > 1 && decode > 0)
      timings["tokens_per_second"] = 1000.0 * static_cast<double>(g.tokens.size() - 1) / decode;
    out["timings"] = std::move(timings);
  }
  if (const auto& s = g.last.speculation) {
    json::array histogram(s->acceptance_histogram.begin(), s->acceptance_histogram.end());
    json::object figures{{"drafter", options.choice.draft_model.empty() ? options.choice.drafter : "model"},
                         {"rule", std::string(name_of(options.rule))},
                         {"guarantee", std::string(name_of(s->guarantee))},
                         {"num_rounds", s->num_rounds},
                         {"num_draft_tokens", s->num_draft_tokens},
                         {"num_accepted_tokens", s->num_accepted_tokens},
                         {"acceptance_histogram", std::move(histogram)}};
    if (s->num_draft_tokens > 0)
      figures["draft_acceptance_rate"] = static_cast<double>(s->num_accepted_tokens) / s->num_draft_tokens;
    if (s->num_rounds > 0)
      figures["mean_acceptance_length"] = 1.0 + static_cast<double>(s->num_accepted_tokens) / s->num_rounds;
    out["speculation"] = std::move(figures);
  }
  return out;
}

void print_now(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void print_text(const token_event& event) {
  if (event.hypotheses.size() < 2) return print_now(event.text);
  for (const auto& one : event.hypotheses) {
    char score[32];
    std::snprintf(score, sizeof score, "[%.4f] ", one.score);
    print_now((&one == event.hypotheses.data() ? "" : "\n") + (score + one.text));
  }
}

trace_view make_trace_view(const served_model& model) {
  const bool colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  return trace_view([&](token_id token) { return model.vocabulary().decode({&token, 1}); }, colour);
}

} // namespace

int run(const run_options& given) {
  if (const int wrong = refuse_stray_parameters(given)) return wrong;
  auto options = given;
  options.prompt = read_prompt(given.prompt);
  auto runtime = start_local(options.choice, options.json);
  if (!runtime) return fail(runtime.error());
  const auto& model = *(*runtime)->model("");
  auto prompt = prompt_tokens(model, options, {json::object{{"role", "user"}, {"content", options.prompt}}});
  if (!prompt) return fail(prompt.error());
  auto request = make_request(options, *prompt);
  request.trace = options.trace;
  auto view = make_trace_view(model);
  std::function<void(const token_event&)> on_event;
  if (options.trace)
    on_event = [&](const token_event& event) { print_now(view.show(event)); };
  else if (!options.json)
    on_event = print_text;
  const auto g = generate(**runtime, std::move(request), on_event);
  if (options.json) {
    std::cout << wire::json_text(report(options, *prompt, g)) << '\n';
  } else {
    print_now(options.trace ? "\n" + g.text + "\n\n" + view.summary() : "\n");
    if (g.last.failure) std::fprintf(stderr, "paceline: %s\n", g.last.failure->message().c_str());
  }
  return g.last.failure ? exit_failure : exit_success;
}

int chat(const run_options& options) {
  if (const int wrong = refuse_stray_parameters(options)) return wrong;
  auto runtime = start_local(options.choice, false);
  if (!runtime) return fail(runtime.error());
  const auto& model = *(*runtime)->model("");
  std::fprintf(stderr,
               "Write a message; an empty line or end of input ends the conversation, Ctrl-C a reply.\n");
  auto turn = options;
  turn.chat = true;
  json::array messages;
  for (std::string line; std::fputs("> ", stderr), std::getline(std::cin, line) && !line.empty();) {
    messages.push_back(json::object{{"role", "user"}, {"content", line}});
    auto prompt = prompt_tokens(model, turn, messages);
    if (!prompt) return fail(prompt.error());
    const interrupt_watch watch; // only while the model replies: at the prompt Ctrl-C ends the program
    const auto g =
        generate(**runtime, make_request(turn, *prompt), print_text, [&] { return watch.interrupted(); });
    print_now("\n");
    if (g.last.finish == finish_reason::error)
      return fail(g.last.failure.value_or(error{errc::internal, ""}));
    messages.push_back(json::object{{"role", "assistant"}, {"content", g.text}});
  }
  return exit_success;
}

} // namespace paceline::apps
