#include "apps/bench/arms.hpp"
#include "apps/bench/options.hpp"
#include "apps/bench/report.hpp"
#include "apps/exit_codes.hpp"

#include <cstdio>

namespace paceline::apps::bench {

namespace json = boost::json;

namespace {

json::object arm_json(const arm& with, const arm_figures& f) {
  json::object out{{"drafter", with.name()},
                   {"tokens", f.num_tokens},
                   {"acceptance_rate", f.acceptance_rate()},
                   {"mean_acceptance_length", f.acceptance_length()},
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

void print_table(std::span<const arm> arms, const std::vector<arm_figures>& figures) {
  table t({"drafter", "tokens/s", "mad", "speed-up", "95 % from", "to", "accepted", "length", "TTFT ms",
           "p99", "gap ms", "p99", "other texts"});
  for (std::size_t a = 0; a < arms.size(); ++a) {
    const arm_figures& f = figures[a];
    if (f.rates.empty()) continue;
    const summary rate = summarise(f.rates), speed_up = summarise(f.speed_ups);
    const auto ms = [](const std::vector<double>& values, double share) {
      return values.empty() ? std::string() : fixed(percentile(values, share) * 1e3, 1);
    };
    t.add({arms[a].name(), fixed(rate.median, 1), fixed(rate.deviation, 1), fixed(speed_up.median, 2),
           fixed(speed_up.interval_from, 2), fixed(speed_up.interval_to, 2), fixed(f.acceptance_rate(), 2),
           fixed(f.acceptance_length(), 2), ms(f.first_token, 0.5), ms(f.first_token, 0.99), ms(f.gaps, 0.5),
           ms(f.gaps, 0.99), std::to_string(f.num_different)});
  }
  t.print();
}

} // namespace

int serve(const serve_bench_options& options) {
  auto choice = options.choice;
  choice.max_running = options.concurrency;
  choice.further_drafters = options.drafters;
  auto runtime = start_local(choice, options.json);
  if (!runtime) return fail(runtime.error());
  const auto prompts =
      read_workload(options.workload, options.requests, options.max_tokens, *(*runtime)->model(""));
  if (!prompts) return fail(prompts.error());
  std::vector<arm> arms;
  for (const auto& drafter : options.drafters) arms.push_back({drafter});
  const auto figures =
      measure(**runtime, arms, {options.concurrency, options.max_tokens, options.temperature, options.seed},
              *prompts, options.json);
  if (!figures) return fail(figures.error());
  if (!options.json) {
    print_table(arms, *figures);
    return exit_success;
  }
  json::array drafters;
  for (std::size_t a = 0; a < arms.size(); ++a) drafters.push_back(arm_json(arms[a], (*figures)[a]));
  print_json("serve", options.command_line, options.seed,
             {{"model", choice.model},
              {"threads", choice.threads},
              {"workload", options.workload},
              {"prompts", prompts->size()},
              {"concurrency", options.concurrency},
              {"max_tokens", options.max_tokens},
              {"draft_length", choice.draft_length ? json::value(*choice.draft_length) : json::value()},
              {"temperature", options.temperature},
              {"drafters", std::move(drafters)}});
  return exit_success;
}

} // namespace paceline::apps::bench
