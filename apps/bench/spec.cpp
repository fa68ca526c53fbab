// Compares drafters, lengths and workloads, measured and predicted.
#include "apps/bench/arms.hpp"
#include "apps/bench/options.hpp"
#include "apps/bench/report.hpp"
#include "apps/commands/local_engine.hpp"
#include "apps/exit_codes.hpp"

#include "runtime/speculation/control/expected_gain.hpp"

#include <algorithm>
#include <filesystem>

namespace paceline::apps::bench {

namespace json = boost::json;

namespace {

/// Predictions from an arm's measured acceptance and times (expected_gain.hpp).
struct prediction {
  double draft_cost = 0;  ///< the cost of one draft token, in passes over one row: c in the paper
  double verify_cost = 1; ///< pass and decisions of a round, relative to plain decoding
  double speed_up = 1;
  double oracle = 1;     ///< speed-up if the number of right tokens of each draft were known
  double operations = 1; ///< factor by which the target's number of rows grows
  /// The gain of overlapping rounds over the same drafter's rounds without overlap.
  std::optional<double> overlap_gain;
  std::optional<double> measured_overlap_gain; ///< the same, from the rounds' periods
};

/// Expected tokens per round whose drafts have `length` tokens on average.
double tokens_of(double alpha, double length) {
  const auto below = static_cast<std::uint32_t>(length);
  const double low = speculation::expected_tokens(alpha, below),
               high = speculation::expected_tokens(alpha, below + 1);
  return low + (length - below) * (high - low);
}

/// V(T), measured over all arms: seconds of a round's pass and decisions over a number of rows, with linear
/// interpolation between the observed sizes.
class pass_curve {
 public:
  explicit pass_curve(std::span<const arm_figures> figures) {
    std::vector<pass_counters> all;
    for (const auto& f : figures) {
      const auto& seen = f.spent.decoding_by_rows;
      all.resize(std::max(all.size(), seen.size()));
      for (std::size_t r = 0; r < seen.size(); ++r)
        all[r].num_passes += seen[r].num_passes, all[r].seconds += seen[r].seconds;
    }
    for (std::size_t r = 0; r < all.size(); ++r)
      if (all[r].num_passes > 0)
        points_.push_back(
            {static_cast<double>(r + 1), all[r].seconds / static_cast<double>(all[r].num_passes)});
  }
  bool empty() const { return points_.empty(); }
  double largest() const { return points_.back().rows; }
  /// The time for `rows` rows, at most `largest`.
  double seconds(double rows) const {
    const auto above = std::ranges::find_if(points_, [&](const point& p) { return p.rows >= rows; });
    if (above == points_.end()) return points_.back().seconds;
    if (above == points_.begin()) return above->seconds;
    const auto& [from, least] = *(above - 1);
    return least + (rows - from) / (above->rows - from) * (above->seconds - least);
  }

 private:
  struct point {
    double rows, seconds;
  };
  std::vector<point> points_;
};

/// The oracle's speed-up with the drafts and times of arm `with`, if all requests of a round draft alike.
double oracle_of(const arm_figures& with, const pass_curve& curve, double draft_cost) {
  const auto parts = with.num_tokens - with.num_accepted_tokens;
  auto histogram = with.acceptance_histogram;
  if (histogram.empty() || curve.empty() || with.spent.num_decoding_rounds == 0) return 1;
  histogram.front() += parts - std::min(parts, with.num_rounds); // the parts without a draft
  const double together =
      std::max(1.0, static_cast<double>(parts) / static_cast<double>(with.spent.num_decoding_rounds));
  std::vector<double> costs;
  for (std::size_t length = 0; length < histogram.size(); ++length) {
    const double rows = together * static_cast<double>(1 + length);
    if (rows > curve.largest() && length > 0) break;
    costs.push_back(curve.seconds(rows) / curve.seconds(together));
  }
  return speculation::oracle_speed_up(histogram, draft_cost, costs);
}

/// Converts `speed_up`, which is that of rounds without prompt rows, to whole requests. The other rounds are
/// assumed to last as long as in plain decoding.
double with_prompts(const arm_figures& plain, double speed_up) {
  const auto& spent = plain.spent;
  const double decoding = spent.draft_seconds + spent.pass_seconds + spent.decide_seconds;
  return (spent.prompt_seconds + decoding) / (spent.prompt_seconds + decoding / speed_up);
}

prediction predict(const arm_figures& plain, const arm_figures& with, const pass_curve& curve) {
  prediction out;
  const auto num_rounds = static_cast<double>(with.spent.num_decoding_rounds);
  if (num_rounds == 0 || plain.spent.num_decoding_rounds == 0 || with.num_rounds == 0) return out;
  const double step = (plain.spent.pass_seconds + plain.spent.decide_seconds) /
                      static_cast<double>(plain.spent.num_decoding_rounds);
  const double length = static_cast<double>(with.num_draft_tokens) / static_cast<double>(with.num_rounds);
  // A request's part of a round commits the accepted draft tokens and one more. Rounds of all arms have the
  // same number of parts.
  const auto parts = static_cast<double>(with.num_tokens - with.num_accepted_tokens);
  const double drafted = std::min(1.0, static_cast<double>(with.num_rounds) / parts);
  const double tokens = drafted * tokens_of(with.alpha(), length) + 1 - drafted;
  const double drafting = (with.spent.draft_seconds + with.spent.draft_busy_seconds) / step;
  out.draft_cost = drafting / static_cast<double>(with.num_draft_tokens);
  out.verify_cost = (with.spent.pass_seconds + with.spent.decide_seconds) / num_rounds / step;
  out.speed_up = with_prompts(plain, tokens / (drafting / num_rounds + out.verify_cost));
  out.oracle = with_prompts(plain, oracle_of(with, curve, out.draft_cost));
  out.operations = (1 + drafted * length) / tokens;
  return out;
}

/// Mean over the rounds with drafts, in seconds.
double round_mean(const arm_figures& f, double seconds) {
  return f.num_rounds == 0 ? 0 : seconds / static_cast<double>(f.num_rounds);
}

/// The predicted gain of an arm with overlap, from the times of the same drafter without overlap (`off`).
double predicted_overlap_gain(const arm_figures& off, const arm_figures& with) {
  const double verify = round_mean(off, off.spent.pass_seconds + off.spent.decide_seconds);
  const double draft = round_mean(off, off.spent.draft_busy_seconds);
  const double verify_beside = round_mean(with, with.spent.pass_seconds + with.spent.decide_seconds);
  const double ready = with.ready_share();
  const double in_advance = round_mean(with, with.spent.draft_busy_seconds) - (1 - ready) * draft;
  return speculation::overlap_gain(verify, draft, verify_beside, std::max(0.0, in_advance), ready);
}

/// The mean costs of an arm's rounds with exactly this number of requests; nullopt if there are no such
/// rounds.
std::optional<speculation::round_cost> cost_of_rounds(const arm_figures& f, std::uint32_t num_requests) {
  const auto& all = f.spent.drafted_by_requests;
  if (num_requests == 0 || num_requests > all.size() || all[num_requests - 1].num_rounds == 0)
    return std::nullopt;
  const auto& same = all[num_requests - 1];
  const auto num = static_cast<double>(same.num_rounds);
  return speculation::round_cost{same.verify_seconds / num, same.draft_seconds / num};
}

/// The predicted gain of an arm in groups, from the rounds of all requests without overlap and the rounds of
/// its two groups.
std::optional<double> predicted_groups_gain(const arm_figures& off, const arm_figures& with) {
  auto num_requests = static_cast<std::uint32_t>(off.spent.drafted_by_requests.size());
  while (num_requests > 0 && !cost_of_rounds(off, num_requests)) --num_requests;
  const auto all = cost_of_rounds(off, num_requests);
  const auto first = cost_of_rounds(with, num_requests - num_requests / 2),
             last = cost_of_rounds(with, num_requests / 2);
  if (!all || !first || !last) return std::nullopt;
  return speculation::groups_gain(*all, *first, *last,
                                  std::max(0.0, off.period() - all->verify - all->draft));
}

/// The arm that differs from arm `a` only in that it has no overlap. There is none if `a` has no overlap or
/// if there is no such arm.
const arm_figures* without_overlap(std::size_t a, std::span<const arm> arms,
                                   std::span<const arm_figures> figures) {
  if (!arms[a].overlap || *arms[a].overlap == overlap_request::off) return nullptr;
  for (std::size_t b = 0; b < arms.size(); ++b)
    if (arms[b].overlap == overlap_request::off && arms[b].drafter == arms[a].drafter &&
        arms[b].draft_length == arms[a].draft_length && arms[b].through == arms[a].through)
      return &figures[b];
  return nullptr;
}

/// The prediction without overlap, times the gain from overlap.
prediction predict(std::size_t a, std::span<const arm> arms, std::span<const arm_figures> figures) {
  const auto* off = without_overlap(a, arms, figures);
  prediction out = predict(figures.front(), off ? *off : figures[a], pass_curve(figures));
  if (!off) return out;
  out.overlap_gain = *arms[a].overlap == overlap_request::groups ? predicted_groups_gain(*off, figures[a])
                                                                 : predicted_overlap_gain(*off, figures[a]);
  out.speed_up *= out.overlap_gain.value_or(1);
  if (figures[a].period() > 0) out.measured_overlap_gain = off->period() / figures[a].period();
  return out;
}

struct shares {
  double draft = 0, verify = 0, sample = 0, rest = 0;
};

/// Shares of an arm's time apart from prompts; the remainder is messages, tokenisation of prompts, and idle
/// time.
shares shares_of(const arm_figures& f) {
  const double wall = f.wall_seconds - f.spent.prompt_seconds;
  shares out{(f.spent.draft_seconds + f.spent.draft_busy_seconds - f.spent.overlap_seconds) / wall,
             f.spent.pass_seconds / wall, f.spent.decide_seconds / wall, 0};
  out.rest = std::max(0.0, 1 - out.draft - out.verify - out.sample);
  return out;
}

/// The input of `predicted_groups_gain`, by the number of requests.
json::array drafted_rounds_of(const arm_figures& f) {
  json::array out;
  for (std::uint32_t n = 1; n <= f.spent.drafted_by_requests.size(); ++n)
    if (const auto cost = cost_of_rounds(f, n))
      out.push_back({{"requests", n},
                     {"rounds", f.spent.drafted_by_requests[n - 1].num_rounds},
                     {"verify_seconds", cost->verify},
                     {"draft_seconds", cost->draft}});
  return out;
}

json::object to_json(std::size_t a, std::span<const arm> arms, std::span<const arm_figures> figures) {
  const arm& with = arms[a];
  const arm_figures& f = figures[a];
  const prediction expected = predict(a, arms, figures);
  const shares time = shares_of(f);
  json::array positions;
  for (std::uint32_t j = 0; j + 1 < f.acceptance_histogram.size(); ++j) positions.push_back(f.accepted_at(j));
  json::object out{
      {"drafter", with.drafter},
      {"through", name_of(with.through)},
      {"draft_length", with.draft_length ? json::value(*with.draft_length) : json::value()},
      {"acceptance_rate", f.acceptance_rate()},
      {"alpha", f.alpha()},
      {"mean_acceptance_length", f.acceptance_length()},
      {"accepted_per_position", std::move(positions)},
      {"draft_cost", expected.draft_cost},
      {"verify_cost", expected.verify_cost},
      {"predicted_speed_up", expected.speed_up},
      {"oracle_speed_up", expected.oracle},
      {"operations_factor", expected.operations},
      {"time_shares",
       {{"draft", time.draft}, {"verify", time.verify}, {"sample", time.sample}, {"rest", time.rest}}},
      {"different_texts", f.num_different}};
  if (with.overlap) {
    out["overlap"] = overlap_request_names[static_cast<std::size_t>(*with.overlap)];
    out["ready_share"] = f.ready_share();
    if (expected.overlap_gain) out["predicted_overlap_gain"] = *expected.overlap_gain;
    if (expected.measured_overlap_gain) out["overlap_gain"] = *expected.measured_overlap_gain;
    out["round_seconds"] = f.period();
    out["drafted_rounds"] = drafted_rounds_of(f);
  }
  if (const bool in_turn = f.spent.overlap_seconds == 0; in_turn && f.spent.num_device_steps > 0)
    out["device_idle_share"] = bench::to_json(
        idle_share_of(f.spent.device_busy_seconds, f.spent.device_launching_seconds, f.wall_seconds));
  if (!f.rates.empty()) {
    out["tokens_per_second"] = bench::to_json(summarise(f.rates));
    out["speed_up"] = bench::to_json(summarise(f.speed_ups));
    out["rates"] =
        json::array(f.rates.begin(), f.rates.end()); // one for each group of prompts, for bench/held_out.py
  }
  if (!f.decode_rates.empty()) out["decode_tokens_per_second"] = bench::to_json(summarise(f.decode_rates));
  return out;
}

void add_rows(table& t, const std::string& workload, std::span<const arm> arms,
              const std::vector<arm_figures>& figures) {
  const auto percent = [](double share) { return fixed(100 * share, 0); };
  for (std::size_t a = 0; a < arms.size(); ++a) {
    const arm_figures& f = figures[a];
    if (f.rates.empty()) continue;
    const prediction expected = predict(a, arms, figures);
    const summary speed_up = summarise(f.speed_ups);
    const shares time = shares_of(f);
    const auto gain = [](const std::optional<double>& of) { return of ? fixed(*of, 2) : ""; };
    t.add({workload,
           arms[a].name(),
           std::string(name_of(arms[a].through)),
           fixed(f.acceptance_rate(), 2),
           fixed(f.alpha(), 2),
           fixed(f.acceptance_length(), 2),
           fixed(expected.draft_cost, 3),
           fixed(expected.verify_cost, 2),
           fixed(expected.speed_up, 2),
           fixed(speed_up.median, 2),
           fixed(speed_up.interval_from, 2) + "-" + fixed(speed_up.interval_to, 2),
           fixed(expected.oracle, 2),
           fixed(expected.operations, 2),
           percent(time.draft),
           percent(time.verify),
           percent(time.sample),
           percent(time.rest),
           f.ready_share() > 0 ? percent(f.ready_share()) : "",
           gain(expected.overlap_gain),
           gain(expected.measured_overlap_gain),
           std::to_string(f.num_different)});
  }
}

/// The arms of all options, through one door.
std::vector<arm> arms_of(const spec_options& options, door_kind through) {
  std::vector<arm> arms{{"none", {}, {}, through}};
  for (const auto& drafter : options.drafters) {
    if (drafter == "none") continue;
    std::vector<arm> of_one;
    if (drafter == "auto" || options.lengths.empty())
      of_one.push_back({drafter, {}, {}, through});
    else
      for (const auto length : options.lengths) of_one.push_back({drafter, length, {}, through});
    for (auto& one : of_one) {
      if (options.overlap.empty()) arms.push_back(one);
      for (const auto mode : options.overlap) arms.push_back({one.drafter, one.draft_length, mode, through});
    }
  }
  return arms;
}

std::vector<arm> arms_of(const spec_options& options) {
  std::vector<arm> arms;
  for (const auto kind : options.doors.kinds())
    for (auto& one : arms_of(options, kind)) arms.push_back(std::move(one));
  return arms;
}

} // namespace

int spec(const spec_options& options) {
  auto choice = options.choice;
  choice.max_running = *std::ranges::max_element(options.concurrency);
  choice.further_drafters = options.drafters;
  auto runtime = start_local(choice, options.json);
  if (!runtime) return fail(runtime.error());
  const auto doors = door_set::open(**runtime, options.doors.kinds());
  if (!doors) return fail(doors.error());
  const auto arms = arms_of(options);
  table t({"workload", "drafter/length", "through",  "accepted", "alpha",  "tokens a round", "c",
           "V",        "predicted",      "measured", "95 %",     "oracle", "operations",     "draft %",
           "verify %", "sample %",       "rest %",   "ready %",  "gain",   "gained",         "other texts"});
  json::array workloads;
  for (const auto& path : options.workloads)
    for (const auto concurrency : options.concurrency) {
      const auto prompts = read_workload(path, options.requests, options.max_tokens, *(*runtime)->model(""));
      if (!prompts) return fail(prompts.error());
      const auto figures = measure(**runtime, *doors, arms,
                                   {concurrency, options.max_tokens, options.temperature, options.seed,
                                    options.doors.pairs, options.doors.trace},
                                   *prompts, options.json);
      if (!figures) return fail(figures.error());
      const std::string name = std::filesystem::path(path).stem().string();
      add_rows(t, concurrency == 1 ? name : name + " x" + std::to_string(concurrency), arms, *figures);
      json::array rows;
      for (std::size_t a = 0; a < arms.size(); ++a) rows.push_back(to_json(a, arms, *figures));
      workloads.push_back(json::object{{"workload", name},
                                       {"prompts", prompts->size()},
                                       {"concurrency", concurrency},
                                       {"arms", std::move(rows)}});
    }
  if (options.json)
    print_json("spec", options.command_line, options.seed,
               {{"model", choice.model},
                {"threads", choice.threads},
                {"max_tokens", options.max_tokens},
                {"temperature", options.temperature},
                {"workloads", std::move(workloads)}});
  else
    t.print();
  return exit_success;
}

} // namespace paceline::apps::bench
