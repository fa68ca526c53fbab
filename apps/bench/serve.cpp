#include "apps/bench/arms.hpp"
#include "apps/bench/options.hpp"
#include "apps/bench/report.hpp"
#include "apps/commands/local_engine.hpp"
#include "apps/exit_codes.hpp"

#include <charconv>

namespace paceline::apps::bench {

namespace json = boost::json;

namespace {

/// The arm with a name from the command line: "auto", or "ngram/8".
expected<arm> arm_named(const std::string& name, door_kind through) {
  const auto slash = name.rfind('/');
  arm out{name.substr(0, slash), {}, {}, through};
  if (slash == std::string::npos) return out;
  const std::string_view digits = std::string_view(name).substr(slash + 1);
  std::uint32_t length = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (failed != std::errc{} || end != digits.data() + digits.size() || length < 1 || length > 63)
    return error(errc::invalid_argument, "--drafters: \"" + name + "\": a draft length is 1 to 63");
  out.draft_length = length;
  return out;
}

/// The arms: each drafter through each door. The doors of one drafter are adjacent.
expected<std::vector<arm>> arms_of(const serve_bench_options& options) {
  std::vector<arm> out;
  for (const auto& name : options.drafters)
    for (const auto kind : options.doors.kinds()) {
      auto one = arm_named(name, kind);
      if (!one) return std::move(one).error();
      out.push_back(*std::move(one));
    }
  return out;
}

/// The same drafter's figures for replies without streaming, if `a` has others.
const arm_figures* unstreamed_of(std::size_t a, std::span<const arm> arms,
                                 std::span<const arm_figures> figures) {
  if (arms[a].through == door_kind::unstreamed) return nullptr;
  for (std::size_t b = 0; b < arms.size(); ++b)
    if (arms[b].through == door_kind::unstreamed && arms[b].name() == arms[a].name()) return &figures[b];
  return nullptr;
}

json::object arm_json(std::size_t a, std::span<const arm> arms, std::span<const arm_figures> figures) {
  const arm_figures& f = figures[a];
  json::object out{{"drafter", arms[a].name()},
                   {"through", name_of(arms[a].through)},
                   {"tokens", f.num_tokens},
                   {"acceptance_rate", f.acceptance_rate()},
                   {"mean_acceptance_length", f.acceptance_length()},
                   {"different_texts", f.num_different},
                   {"tokens_per_second", to_json(summarise(f.rates))},
                   {"speed_up", to_json(summarise(f.speed_ups))}};
  if (!f.decode_rates.empty()) out["decode_tokens_per_second"] = to_json(summarise(f.decode_rates));
  if (const auto* whole = unstreamed_of(a, arms, figures))
    out["of_unstreamed"] = to_json(summarise(ratios(f, *whole)));
  if (f.num_events > 0) out["events"] = f.num_events;
  if (f.num_traced_rounds > 0) out["rounds"] = f.num_traced_rounds;
  const auto percentiles = [&](const std::string& name, const std::vector<double>& values) {
    if (values.empty()) return;
    out[name + "_p50"] = percentile(values, 0.5);
    out[name + "_p99"] = percentile(values, 0.99);
  };
  percentiles("ttft", f.first_token);
  percentiles("gap", f.gaps);
  percentiles("commit_to_client", f.commit_to_client);
  return out;
}

void print_table(std::span<const arm> arms, const std::vector<arm_figures>& figures) {
  table t({"drafter", "through", "tokens/s", "mad", "speed-up", "95 % from", "to", "of unstreamed",
           "decode/s", "accepted", "length", "TTFT ms", "p99", "gap ms", "p99", "other texts"});
  for (std::size_t a = 0; a < arms.size(); ++a) {
    const arm_figures& f = figures[a];
    const summary rate = summarise(f.rates), speed_up = summarise(f.speed_ups);
    const auto ms = [](const std::vector<double>& values, double share) {
      return values.empty() ? std::string() : fixed(percentile(values, share) * 1e3, 1);
    };
    const auto* whole = unstreamed_of(a, arms, figures);
    t.add({arms[a].name(), std::string(name_of(arms[a].through)), fixed(rate.median, 1),
           fixed(rate.deviation, 1), fixed(speed_up.median, 2), fixed(speed_up.interval_from, 2),
           fixed(speed_up.interval_to, 2), whole ? fixed(summarise(ratios(f, *whole)).median, 3) : "",
           f.decode_rates.empty() ? "" : fixed(summarise(f.decode_rates).median, 1),
           fixed(f.acceptance_rate(), 2), fixed(f.acceptance_length(), 2), ms(f.first_token, 0.5),
           ms(f.first_token, 0.99), ms(f.gaps, 0.5), ms(f.gaps, 0.99), std::to_string(f.num_different)});
  }
  t.print();
}

void print_report(const serve_bench_options& options, std::size_t num_prompts, std::span<const arm> arms,
                  std::span<const arm_figures> figures) {
  json::array drafters;
  for (std::size_t a = 0; a < arms.size(); ++a) drafters.push_back(arm_json(a, arms, figures));
  const auto& length = options.choice.draft_length;
  print_json("serve", options.command_line, options.seed,
             {{"model", options.choice.model},
              {"threads", options.choice.threads},
              {"workload", options.workload},
              {"prompts", num_prompts},
              {"concurrency", options.concurrency},
              {"max_tokens", options.max_tokens},
              {"draft_length", length ? json::value(*length) : json::value()},
              {"temperature", options.temperature},
              {"drafters", std::move(drafters)}});
}

} // namespace

int serve(const serve_bench_options& options) {
  const auto arms = arms_of(options);
  if (!arms) return fail(arms.error());
  auto choice = options.choice;
  choice.max_running = options.concurrency;
  choice.further_drafters.clear();
  for (const auto& one : *arms) choice.further_drafters.push_back(one.drafter);
  auto runtime = start_local(choice, options.json);
  if (!runtime) return fail(runtime.error());
  const auto prompts =
      read_workload(options.workload, options.requests, options.max_tokens, *(*runtime)->model(""));
  if (!prompts) return fail(prompts.error());
  const auto doors = door_set::open(**runtime, options.doors.kinds());
  if (!doors) return fail(doors.error());
  const auto figures = measure(**runtime, *doors, *arms,
                               {options.concurrency, options.max_tokens, options.temperature, options.seed,
                                options.doors.pairs, options.doors.trace},
                               *prompts, options.json);
  if (!figures) return fail(figures.error());
  if (options.json)
    print_report(options, prompts->size(), *arms, *figures);
  else
    print_table(*arms, *figures);
  return exit_success;
}

} // namespace paceline::apps::bench
