#include "apps/bench/options.hpp"
#include "apps/bench/report.hpp"
#include "apps/commands/local_engine.hpp"
#include "apps/exit_codes.hpp"

#include "engine/served_model.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <boost/json/parse.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <future>

namespace paceline::apps::bench {

namespace json = boost::json;

namespace {

using std::chrono::steady_clock;

double seconds(std::chrono::nanoseconds d) { return std::chrono::duration<double>(d).count(); }

/// The prompts of a workload file, as tokens.
expected<std::vector<std::vector<token_id>>> read_workload(const serve_bench_options& options, const served_model& model) {
  std::ifstream file(options.workload);
  if (!file) return error(errc::not_found, options.workload + ": cannot be opened");
  std::vector<std::vector<token_id>> prompts;
  std::uint32_t number = 0;
  for (std::string line; std::getline(file, line) && (options.requests == 0 || prompts.size() < options.requests);) {
    ++number;
    const std::string place = options.workload + ":" + std::to_string(number);
    boost::system::error_code failed;
    const json::value parsed = json::parse(line, failed);
    const json::object* const item = failed ? nullptr : parsed.if_object();
    if (item == nullptr) return error(errc::invalid_file, place + ": not a JSON object");
    const json::value* const messages = item->if_contains("messages");
    const json::value* const prompt = item->if_contains("prompt");
    auto tokens = messages != nullptr && messages->is_array() ? chat_prompt(model, messages->get_array())
                  : prompt != nullptr && prompt->is_string()
                      ? model.vocabulary().encode(prompt->get_string())
                      : expected<std::vector<token_id>>(error(errc::invalid_file, "neither \"messages\" nor \"prompt\""));
    if (!tokens) return std::move(tokens).error().within(place);
    if (tokens->size() + options.max_tokens > model.context_length()) {
      std::fprintf(stderr, "%s: %zu tokens do not fit the context, left out\n", place.c_str(), tokens->size());
      continue;
    }
    prompts.push_back(*std::move(tokens));
  }
  if (prompts.empty()) return error(errc::invalid_file, options.workload + ": no prompts");
  return prompts;
}

/// What one drafter did over the workload.
struct drafter_figures {
  std::vector<double> rates;       ///< tokens per second, one a group of requests
  std::vector<double> speed_ups;   ///< against the first drafter's run of the same group
  std::vector<double> first_token; ///< seconds from submission
  std::vector<double> gaps;        ///< seconds between a request's events
  std::uint64_t num_tokens = 0, num_draft_tokens = 0, num_accepted_tokens = 0, num_rounds = 0;
  std::uint32_t num_different = 0; ///< requests whose tokens are not the first drafter's
};

/// Runs a group of prompts at the same time with one drafter.
std::vector<generated> run_group(engine& runtime, const serve_bench_options& options, const std::string& drafter,
                                 std::span<const std::vector<token_id>> prompts) {
  std::vector<std::future<generated>> running;
  for (const auto& prompt : prompts) {
    generation_request request;
    request.prompt = prompt;
    request.stop.max_tokens = options.max_tokens;
    request.sampling.temperature = options.temperature;
    request.sampling.seed = options.seed;
    request.speculation.drafter = drafter;
    request.cache_salt = drafter; // a prompt computed for one drafter is no gift to the next
    running.push_back(std::async(std::launch::async, [&runtime, r = std::move(request)]() mutable {
      return generate(runtime, std::move(r), nullptr);
    }));
  }
  std::vector<generated> out;
  for (auto& r : running) out.push_back(r.get());
  return out;
}

/// Tokens per second of a group: from the first token on where it is one request, over its whole time where several
/// share the machine.
double rate_of(const std::vector<generated>& group, double wall_seconds) {
  std::size_t tokens = 0;
  for (const auto& g : group) tokens += g.tokens.size();
  if (group.size() > 1) return static_cast<double>(tokens) / wall_seconds;
  return static_cast<double>(tokens - 1) / seconds(group.front().last.timings->decode);
}

void note(drafter_figures& figures, const std::vector<generated>& group) {
  for (const generated& g : group) {
    figures.num_tokens += g.tokens.size();
    figures.first_token.push_back(seconds(g.last.timings->queued + g.last.timings->prefill));
    for (std::size_t i = 1; i < g.arrivals.size(); ++i) figures.gaps.push_back(seconds(g.arrivals[i] - g.arrivals[i - 1]));
    if (!g.last.speculation) continue;
    figures.num_rounds += g.last.speculation->num_rounds;
    figures.num_draft_tokens += g.last.speculation->num_draft_tokens;
    figures.num_accepted_tokens += g.last.speculation->num_accepted_tokens;
  }
}

/// Every group with every drafter before the next group, in alternating order.
expected<std::vector<drafter_figures>> measure(engine& runtime, const serve_bench_options& options,
                                               const std::vector<std::vector<token_id>>& prompts) {
  const std::size_t num_drafters = options.drafters.size();
  std::vector<drafter_figures> figures(num_drafters);
  for (std::size_t begin = 0, group = 0; begin < prompts.size(); begin += options.concurrency, ++group) {
    const auto part = std::span(prompts).subspan(begin, std::min<std::size_t>(options.concurrency, prompts.size() - begin));
    std::vector<std::vector<generated>> results(num_drafters);
    std::vector<double> rates(num_drafters);
    bool comparable = true;
    for (std::size_t k = 0; k < num_drafters; ++k) {
      const std::size_t d = group % 2 == 0 ? k : num_drafters - 1 - k;
      const auto start = steady_clock::now();
      results[d] = run_group(runtime, options, options.drafters[d], part);
      const double wall = seconds(steady_clock::now() - start);
      for (const auto& g : results[d])
        if (g.last.failure || !g.last.timings)
          return g.last.failure ? *g.last.failure : error(errc::internal, "a generation ended early");
      note(figures[d], results[d]);
      comparable = comparable && (part.size() > 1 || results[d].front().tokens.size() > 1);
      if (comparable) rates[d] = rate_of(results[d], wall);
    }
    for (std::size_t d = 0; d < num_drafters; ++d) {
      for (std::size_t i = 0; i < part.size(); ++i)
        figures[d].num_different += results[d][i].tokens != results[0][i].tokens ? 1 : 0;
      if (!comparable) continue;
      figures[d].rates.push_back(rates[d]);
      figures[d].speed_ups.push_back(rates[d] / rates[0]);
    }
    if (!options.json) std::fprintf(stderr, "\r%zu of %zu prompts", begin + part.size(), prompts.size());
  }
  if (!options.json) std::fprintf(stderr, "\n");
  return figures;
}

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

json::object drafter_json(const std::string& name, const drafter_figures& f) {
  json::object out{{"drafter", name},
                   {"tokens", f.num_tokens},
                   {"acceptance_rate", ratio(f.num_accepted_tokens, f.num_draft_tokens)},
                   {"mean_acceptance_length", 1 + ratio(f.num_accepted_tokens, f.num_rounds)},
                   {"different_texts", f.num_different},
                   {"ttft_p50", percentile(f.first_token, 0.5)},
                   {"ttft_p99", percentile(f.first_token, 0.99)}};
  if (!f.rates.empty()) {
    out["tokens_per_second"] = to_json(summarise(f.rates));
    out["speed_up"] = to_json(summarise(f.speed_ups));
  }
  if (!f.gaps.empty()) {
    out["gap_p50"] = percentile(f.gaps, 0.5);
    out["gap_p99"] = percentile(f.gaps, 0.99);
  }
  return out;
}

void print_table(const serve_bench_options& options, const std::vector<drafter_figures>& figures) {
  table t({"drafter", "tokens/s", "mad", "speed-up", "min", "max", "accepted", "length", "TTFT ms", "p99", "gap ms", "p99",
           "other texts"});
  for (std::size_t d = 0; d < figures.size(); ++d) {
    const drafter_figures& f = figures[d];
    if (f.rates.empty()) continue;
    const summary rate = summarise(f.rates), speed_up = summarise(f.speed_ups);
    const auto ms = [](const std::vector<double>& values, double share) {
      return values.empty() ? std::string() : fixed(percentile(values, share) * 1e3, 1);
    };
    t.add({options.drafters[d], fixed(rate.median, 1), fixed(rate.deviation, 1), fixed(speed_up.median, 2),
           fixed(speed_up.least, 2), fixed(speed_up.most, 2), fixed(ratio(f.num_accepted_tokens, f.num_draft_tokens), 2),
           fixed(1 + ratio(f.num_accepted_tokens, f.num_rounds), 2), ms(f.first_token, 0.5), ms(f.first_token, 0.99),
           ms(f.gaps, 0.5), ms(f.gaps, 0.99), std::to_string(f.num_different)});
  }
  t.print();
}

} // namespace

int serve(const serve_bench_options& options) {
  auto choice = options.choice;
  choice.max_running = options.concurrency;
  const auto fail = [](const error& e) {
    std::fprintf(stderr, "paceline: %s\n", e.message().c_str());
    return code_for(e);
  };
  auto runtime = start_local(choice, options.json);
  if (!runtime) return fail(runtime.error());
  const auto prompts = read_workload(options, *(*runtime)->model(""));
  if (!prompts) return fail(prompts.error());
  const auto figures = measure(**runtime, options, *prompts);
  if (!figures) return fail(figures.error());
  if (!options.json) {
    print_table(options, *figures);
    return exit_success;
  }
  json::array drafters;
  for (std::size_t d = 0; d < figures->size(); ++d) drafters.push_back(drafter_json(options.drafters[d], (*figures)[d]));
  print_json("serve", options.command_line, options.seed,
             {{"model", choice.model}, {"threads", choice.threads}, {"workload", options.workload},
              {"prompts", prompts->size()}, {"concurrency", options.concurrency}, {"max_tokens", options.max_tokens},
              {"draft_length", choice.draft_length}, {"temperature", options.temperature},
              {"drafters", std::move(drafters)}});
  return exit_success;
}

} // namespace paceline::apps::bench
