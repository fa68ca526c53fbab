#include "apps/commands/local_engine.hpp"
#include "apps/commands/run_request.hpp"
#include "apps/commands/trace_view.hpp"
#include "apps/exit_codes.hpp"
#include "apps/terminal_text.hpp"

#include "engine/served_model.hpp"
#include "protocol/wire/json_text.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <boost/json.hpp>

#include <cstdio>
#include <iostream>
#include <iterator>

namespace paceline::apps {

namespace json = boost::json;

namespace {

constexpr std::string_view more_room = "a shorter prompt, or a larger --ctx-size";

/// The prompt's tokens. The prompt is a message in the chat template if the model has one and --raw was not
/// given.
expected<std::vector<token_id>> prompt_tokens(const served_model& model, const run_options& options) {
  if (!options.chat && (options.raw || model.chat() == nullptr)) {
    if (options.system) return error{errc::invalid_argument, "--system: the model has no chat template"};
    return model.vocabulary().encode(options.prompt);
  }
  return chat_prompt(model, conversation(options.system, {}, options.prompt));
}

/// Reads the prompt from standard input if it is "-". Editors and `echo` add a line break at the end, which
/// does not belong to the prompt.
std::string read_prompt(const std::string& given) {
  if (given != "-") return given;
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

json::array ids(const std::vector<token_id>& tokens) {
  json::array out;
  for (auto t : tokens) out.push_back(t.value);
  return out;
}

double milliseconds(std::chrono::nanoseconds d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

/// `drafter`: the one that was used.
json::object report(const run_options& options, const std::string& drafter,
                    const std::vector<token_id>& prompt, const generated& g) {
  json::object out{{"model", options.alias ? *options.alias : options.choice.model},
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
    json::object figures{{"drafter", drafter},
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

void print_text(const token_event& event) {
  if (event.hypotheses.size() < 2) return print_now(for_output(event.text));
  for (const auto& one : event.hypotheses) {
    char score[32];
    std::snprintf(score, sizeof score, "[%.4f] ", one.score);
    print_now((&one == event.hypotheses.data() ? "" : "\n") + (score + for_output(one.text)));
  }
}

trace_view make_trace_view(const served_model& model) {
  return trace_view([&](token_id token) { return model.vocabulary().decode({&token, 1}); }, wants_colour());
}

} // namespace

int run(const run_options& given) {
  if (const int wrong = refuse_stray_parameters(given)) return wrong;
  auto options = given;
  options.prompt = read_prompt(given.prompt);
  settle_seed(options);
  const auto drafter = default_drafter(options.choice);
  if (!drafter) return fail(drafter.error());
  auto runtime = start_local(options.choice, options.json);
  if (!runtime) return fail(runtime.error());
  const auto& model = *(*runtime)->model("");
  auto prompt = prompt_tokens(model, options);
  if (!prompt) return fail(prompt.error());
  auto request = make_request(options, *prompt, model.context_length(), more_room);
  if (!request) return fail(request.error());
  request->trace = options.trace;
  auto view = make_trace_view(model);
  std::function<void(const token_event&)> on_event;
  if (options.trace)
    on_event = [&](const token_event& event) { print_now(view.show(event)); };
  else if (!options.json)
    on_event = print_text;
  const auto g = generate(**runtime, *std::move(request), on_event);
  if (options.json) {
    std::cout << for_output(wire::json_text(report(options, *drafter, *prompt, g))) << '\n';
  } else {
    print_now(options.trace ? "\n" + for_output(g.text) + "\n\n" + view.summary() : "\n");
    if (g.last.finish == finish_reason::length)
      std::fputs(cut_notice(g.tokens.size(), options.max_tokens, more_room).c_str(), stderr);
    if (g.last.failure) std::fprintf(stderr, "paceline: %s\n", g.last.failure->message().c_str());
  }
  return g.last.failure ? exit_failure : exit_success;
}

} // namespace paceline::apps
