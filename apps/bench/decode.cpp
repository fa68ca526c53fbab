#include "apps/bench/options.hpp"
#include "apps/bench/report.hpp"
#include "apps/commands/local_engine.hpp"
#include "apps/exit_codes.hpp"

#include "engine/served_model.hpp"
#include "runtime/model/language_model.hpp"

#include <chrono>
#include <cstdio>
#include <future>
#include <random>

namespace paceline::apps::bench {

namespace {

double seconds(std::chrono::nanoseconds d) { return std::chrono::duration<double>(d).count(); }

/// A request of made-up tokens, plain and greedy, that runs to its full length.
generation_request made_up(std::uint32_t vocab_size, std::uint32_t prompt_tokens, std::uint32_t tokens, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  generation_request request;
  for (std::uint32_t i = 0; i < prompt_tokens; ++i)
    request.prompt.emplace_back(static_cast<std::int32_t>(random() % vocab_size));
  request.stop.max_tokens = tokens;
  request.stop.ignore_eos = true;
  request.sampling.temperature = 0;
  request.speculation.drafter = "none";
  return request;
}

/// Runs the requests at the same time; their results, in order.
std::vector<generated> run_together(engine& runtime, const std::vector<generation_request>& requests) {
  std::vector<std::future<generated>> running;
  for (const auto& request : requests)
    running.push_back(std::async(std::launch::async, [&] { return generate(runtime, request, nullptr); }));
  std::vector<generated> out;
  for (auto& r : running) out.push_back(r.get());
  return out;
}

error failure_of(const generated& g) {
  return g.last.failure ? *g.last.failure : error(errc::internal, "the generation ended early");
}

void show_run(const common_options& options, std::uint32_t repeat, double rate) {
  if (!options.json) std::fprintf(stderr, "run %u of %u: %.1f tokens/s\n", repeat, options.repeats, rate);
}

} // namespace

int decode(const decode_options& options) {
  auto choice = options.choice;
  choice.drafter = "none";
  choice.max_running = options.batch;
  auto runtime = start_local(choice, options.json);
  if (!runtime) return fail(runtime.error());
  const std::uint32_t vocab_size = (*runtime)->model("")->info().vocab_size;
  std::vector<generation_request> requests;
  for (std::uint32_t b = 0; b < options.batch; ++b)
    requests.push_back(made_up(vocab_size, options.prompt_tokens, options.tokens, options.seed + b));
  std::vector<double> rates;
  for (std::uint32_t repeat = 0; repeat <= options.repeats; ++repeat) { // the first one warms up
    const auto results = run_together(**runtime, requests);
    double rate = 0; // of each request from its first token on
    for (const generated& g : results) {
      if (g.last.failure || !g.last.timings || g.tokens.size() != options.tokens) return fail(failure_of(g));
      rate += static_cast<double>(g.tokens.size() - 1) / seconds(g.last.timings->decode);
    }
    if (repeat == 0) continue;
    rates.push_back(rate);
    show_run(options, repeat, rate);
  }
  const summary s = summarise(rates);
  if (options.json)
    print_json("decode", options.command_line, options.seed,
               {{"model", choice.model}, {"threads", choice.threads}, {"batch", options.batch},
                {"prompt_tokens", options.prompt_tokens}, {"tokens", options.tokens},
                {"tokens_per_second", s.median}, {"spread", to_json(s)}});
  else
    std::printf("decode: %.1f tokens/s with %u request%s (median of %zu; %.1f to %.1f)\n", s.median, options.batch,
                options.batch == 1 ? "" : "s", s.count, s.least, s.most);
  return exit_success;
}

int prefill(const prefill_options& options) {
  auto choice = options.choice;
  choice.drafter = "none";
  auto runtime = start_local(choice, options.json);
  if (!runtime) return fail(runtime.error());
  const std::uint32_t vocab_size = (*runtime)->model("")->info().vocab_size;
  std::vector<double> rates;
  for (std::uint32_t repeat = 0; repeat <= options.repeats; ++repeat) {
    // Another prompt each time: a known one would come from the prefix cache.
    const auto g = generate(**runtime, made_up(vocab_size, options.prompt_tokens, 1, options.seed + repeat), nullptr);
    if (g.last.failure || !g.last.timings) return fail(failure_of(g));
    if (repeat == 0) continue;
    rates.push_back(options.prompt_tokens / seconds(g.last.timings->prefill));
    show_run(options, repeat, rates.back());
  }
  const summary s = summarise(rates);
  if (options.json)
    print_json("prefill", options.command_line, options.seed,
               {{"model", choice.model}, {"threads", choice.threads}, {"prompt_tokens", options.prompt_tokens},
                {"tokens_per_second", s.median}, {"spread", to_json(s)}});
  else
    std::printf("prefill: %.1f tokens/s of %u (median of %zu; %.1f to %.1f)\n", s.median, options.prompt_tokens, s.count,
                s.least, s.most);
  return exit_success;
}

} // namespace paceline::apps::bench
