#include "apps/bench/device_roof.hpp"
#include "apps/bench/options.hpp"
#include "apps/bench/report.hpp"
#include "apps/commands/local_engine.hpp"
#include "apps/exit_codes.hpp"

#include "engine/served_model.hpp"
#include "engine/snapshot.hpp"
#include "runtime/model/language_model.hpp"

#include <chrono>
#include <cstdio>
#include <future>
#include <random>

namespace paceline::apps::bench {

namespace {

/// A plain, greedy request of made-up tokens that runs to its full length.
generation_request made_up(std::uint32_t vocab_size, std::uint32_t prompt_tokens, std::uint32_t tokens,
                           std::uint64_t seed) {
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

/// Times of runs by the device's own clock; empty if the device has no clock.
struct device_times {
  std::vector<double> least_idle, most_idle; ///< [run] shares of its time
  std::vector<double> step_seconds;          ///< [run]

  void add(const model_counters& before, const model_counters& after, double wall) {
    const auto num_steps = after.num_device_steps - before.num_device_steps;
    if (num_steps == 0) return;
    const double busy = after.device_busy_seconds - before.device_busy_seconds;
    const double launching = after.device_launching_seconds - before.device_launching_seconds;
    const idle_share idle = idle_share_of(busy, launching, wall);
    least_idle.push_back(idle.least);
    most_idle.push_back(idle.most);
    step_seconds.push_back(busy / static_cast<double>(num_steps));
  }
};

struct decode_figures {
  std::vector<double> rates; ///< [run] tokens a second
  device_times device;
};

/// One run of all requests, their rates added up. Counted unless `repeat` is 0.
expected<void> run_once(const decode_options& options, engine& runtime,
                        const std::vector<generation_request>& requests, std::uint32_t repeat,
                        decode_figures& out) {
  const auto before = snapshot_at_rest(runtime);
  const auto start = std::chrono::steady_clock::now();
  const auto results = run_together(runtime, requests);
  const double wall = seconds(std::chrono::steady_clock::now() - start);
  double rate = 0; // sum of each request's rate from its first token on
  for (const generated& g : results) {
    if (g.last.failure || !g.last.timings || g.tokens.size() != options.tokens) return failure_of(g);
    rate += static_cast<double>(g.tokens.size() - 1) / seconds(g.last.timings->decode);
  }
  if (repeat == 0) return {};
  out.rates.push_back(rate);
  out.device.add(before.models.front(), snapshot_at_rest(runtime).models.front(), wall);
  show_run(options, repeat, rate);
  return {};
}

/// The share of the device's read rate that decoding reaches. A round reads the weights once, whatever the
/// batch size.
double share_of_roof(const device_roof& roof, double tokens_per_second, std::uint32_t batch,
                     std::uint64_t weight_bytes) {
  return tokens_per_second / batch * static_cast<double>(weight_bytes) / roof.read_bytes_per_second();
}

boost::json::object to_json(const decode_options& options, const decode_figures& figures,
                            std::uint64_t weight_bytes, const device_roof* roof) {
  const summary s = summarise(figures.rates);
  boost::json::object out{{"model", options.choice.model},          {"device", options.choice.device},
                          {"threads", options.choice.threads},      {"batch", options.batch},
                          {"prompt_tokens", options.prompt_tokens}, {"tokens", options.tokens},
                          {"tokens_per_second", s.median},          {"spread", to_json(s)},
                          {"weight_bytes_per_token", weight_bytes}};
  if (roof != nullptr) {
    out["read_gb_per_second"] = roof->read_bytes_per_second() / 1e9;
    out["share_of_roof"] = share_of_roof(*roof, s.median, options.batch, weight_bytes);
  }
  if (const device_times& device = figures.device; !device.step_seconds.empty()) {
    out["device_idle_share"] =
        to_json(idle_share{summarise(device.least_idle).median, summarise(device.most_idle).median});
    out["device_ms_per_step"] = summarise(device.step_seconds).median * 1e3;
  }
  return out;
}

} // namespace

int decode(const decode_options& options) {
  auto choice = options.choice;
  choice.drafter = "none";
  choice.max_running = options.batch;
  auto runtime = start_local(choice, options.json);
  if (!runtime) return fail(runtime.error());
  const auto& info = (*runtime)->model("")->info();
  std::vector<generation_request> requests;
  for (std::uint32_t b = 0; b < options.batch; ++b)
    requests.push_back(made_up(info.vocab_size, options.prompt_tokens, options.tokens, options.seed + b));
  std::unique_ptr<device_roof> roof;
  if (options.roof) {
    auto made = roof_of(choice.device, choice.num_threads());
    if (!made) return fail(made.error());
    roof = *std::move(made);
  }
  decode_figures figures;
  for (std::uint32_t repeat = 0; repeat <= options.repeats; ++repeat) { // the first is a warm-up
    if (roof)
      if (const auto sampled = roof->sample(); !sampled) return fail(sampled.error());
    if (const auto ran = run_once(options, **runtime, requests, repeat, figures); !ran)
      return fail(ran.error());
  }
  if (options.json) {
    print_json("decode", options.command_line, options.seed,
               to_json(options, figures, info.bytes_per_token, roof.get()));
    return exit_success;
  }
  const summary s = summarise(figures.rates);
  std::printf("decode: %.1f tokens/s with %u request%s (median of %zu; %.1f to %.1f)\n", s.median,
              options.batch, options.batch == 1 ? "" : "s", s.count, s.least, s.most);
  if (roof)
    std::printf("the device reads %.1f GB/s: %.0f %% of that\n", roof->read_bytes_per_second() / 1e9,
                100 * share_of_roof(*roof, s.median, options.batch, info.bytes_per_token));
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
    // Each run has another prompt, because a known prompt would come from the prefix cache.
    const auto g =
        generate(**runtime, made_up(vocab_size, options.prompt_tokens, 1, options.seed + repeat), nullptr);
    if (g.last.failure || !g.last.timings) return fail(failure_of(g));
    if (repeat == 0) continue;
    rates.push_back(options.prompt_tokens / seconds(g.last.timings->prefill));
    show_run(options, repeat, rates.back());
  }
  const summary s = summarise(rates);
  if (options.json)
    print_json("prefill", options.command_line, options.seed,
               {{"model", choice.model},
                {"threads", choice.threads},
                {"prompt_tokens", options.prompt_tokens},
                {"tokens_per_second", s.median},
                {"spread", to_json(s)}});
  else
    std::printf("prefill: %.1f tokens/s of %u (median of %zu; %.1f to %.1f)\n", s.median,
                options.prompt_tokens, s.count, s.least, s.most);
  return exit_success;
}

} // namespace paceline::apps::bench
