#include "apps/bench/arms.hpp"

#include "apps/bench/report.hpp"
#include "engine/activity.hpp"
#include "engine/probe.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace paceline::apps::bench {

namespace {

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// The requests of group number `group` in arm `with`.
std::vector<errand> errands_of(const run_settings& settings, const arm& with, std::size_t group,
                               std::span<const workload_prompt> prompts) {
  const std::size_t begin = group * settings.concurrency;
  const std::size_t end = settings.pairs > 0
                              ? begin + settings.concurrency
                              : std::min<std::size_t>(begin + settings.concurrency, prompts.size());
  std::vector<errand> out;
  for (std::size_t i = begin; i < end; ++i) {
    errand one{&prompts[i % prompts.size()], with.drafter, with.draft_length, with.overlap};
    // The salt separates arms and passes: they share neither cached prompts nor replies to draft from.
    one.salt =
        with.name() + " " + std::string(name_of(with.through)) + " " + std::to_string(i / prompts.size());
    one.max_tokens = settings.max_tokens;
    one.temperature = settings.temperature;
    one.seed = settings.seed;
    one.trace = settings.trace;
    out.push_back(std::move(one));
  }
  return out;
}

/// Seconds from the first request sent to the last reply's end.
double wall_of(const std::vector<delivery>& group) {
  const auto sent = std::ranges::min(group, {}, &delivery::sent).sent;
  return seconds(std::ranges::max(group, {}, &delivery::ended).ended - sent);
}

double rate_of(const std::vector<delivery>& group) {
  std::size_t tokens = 0;
  for (const auto& d : group) tokens += d.tokens.size();
  return static_cast<double>(tokens) / wall_of(group);
}

/// The rate from the second event on; nullopt if a reply came in one event.
std::optional<double> decode_rate_of(const std::vector<delivery>& group) {
  double rate = 0;
  for (const auto& d : group) {
    if (d.arrivals.size() < 2) return std::nullopt;
    const double time = seconds(d.arrivals.back().time - d.arrivals.front().time);
    if (time <= 0) return std::nullopt; // all events came in one read
    rate += static_cast<double>(d.tokens.size() - d.arrivals.front().num_tokens) / time;
  }
  return rate;
}

void note(arm_figures& figures, const std::vector<delivery>& group) {
  for (const delivery& d : group) {
    figures.num_tokens += d.tokens.size();
    figures.num_events += d.arrivals.size();
    figures.num_traced_rounds += d.num_rounds;
    if (!d.arrivals.empty()) figures.first_token.push_back(seconds(d.arrivals.front().time - d.sent));
    for (std::size_t i = 1; i < d.arrivals.size(); ++i)
      figures.gaps.push_back(seconds(d.arrivals[i].time - d.arrivals[i - 1].time));
    if (!d.speculation) continue;
    const speculation_stats& stats = *d.speculation;
    figures.num_rounds += stats.num_rounds;
    figures.num_full_rounds += stats.num_full_rounds;
    figures.num_draft_tokens += stats.num_draft_tokens;
    figures.num_accepted_tokens += stats.num_accepted_tokens;
    auto& histogram = figures.acceptance_histogram;
    histogram.resize(std::max(histogram.size(), stats.acceptance_histogram.size()));
    for (std::size_t j = 0; j < stats.acceptance_histogram.size(); ++j)
      histogram[j] += stats.acceptance_histogram[j];
  }
}

/// Rounds in which all requests of the group decoded.
void note_full_periods(arm_figures& figures, const std::vector<delivery>& group) {
  // These are the prompt's own round, a round while the drafter asks for its memory, and a round while the
  // drafter reads the prompt.
  constexpr std::size_t settled = 3;
  if (std::ranges::any_of(group, [](const auto& d) { return d.arrivals.size() <= settled; })) return;
  auto from = group.front().arrivals[settled - 1].time, to = group.front().arrivals.back().time;
  for (const auto& d : group)
    from = std::max(from, d.arrivals[settled - 1].time), to = std::min(to, d.arrivals.back().time);
  for (const auto& d : group) {
    const auto first = std::ranges::lower_bound(d.arrivals, from, {}, &arrival::time),
               end = std::ranges::upper_bound(d.arrivals, to, {}, &arrival::time);
    if (end - first < 2) continue;
    figures.num_full_periods += static_cast<std::uint64_t>(end - first - 1);
    figures.full_period_seconds += seconds((end - 1)->time - first->time);
  }
}

void add_difference(model_counters& sum, const model_counters& before, const model_counters& after) {
  sum.num_decoding_rounds += after.num_decoding_rounds - before.num_decoding_rounds;
  sum.decoding_by_rows.resize(std::max(sum.decoding_by_rows.size(), after.decoding_by_rows.size()));
  for (std::size_t r = 0; r < after.decoding_by_rows.size(); ++r) {
    const auto& now = after.decoding_by_rows[r];
    const auto then = r < before.decoding_by_rows.size() ? before.decoding_by_rows[r] : pass_counters{};
    sum.decoding_by_rows[r].num_passes += now.num_passes - then.num_passes;
    sum.decoding_by_rows[r].seconds += now.seconds - then.seconds;
  }
  sum.drafted_by_requests.resize(std::max(sum.drafted_by_requests.size(), after.drafted_by_requests.size()));
  for (std::size_t n = 0; n < after.drafted_by_requests.size(); ++n) {
    const auto& now = after.drafted_by_requests[n];
    const auto then =
        n < before.drafted_by_requests.size() ? before.drafted_by_requests[n] : drafted_round_counters{};
    sum.drafted_by_requests[n].num_rounds += now.num_rounds - then.num_rounds;
    sum.drafted_by_requests[n].verify_seconds += now.verify_seconds - then.verify_seconds;
    sum.drafted_by_requests[n].draft_seconds += now.draft_seconds - then.draft_seconds;
  }
  sum.prompt_seconds += after.prompt_seconds - before.prompt_seconds;
  sum.draft_seconds += after.draft_seconds - before.draft_seconds;
  sum.pass_seconds += after.pass_seconds - before.pass_seconds;
  sum.decide_seconds += after.decide_seconds - before.decide_seconds;
  sum.draft_busy_seconds += after.draft_busy_seconds - before.draft_busy_seconds;
  sum.target_busy_seconds += after.target_busy_seconds - before.target_busy_seconds;
  sum.overlap_seconds += after.overlap_seconds - before.overlap_seconds;
  sum.num_device_steps += after.num_device_steps - before.num_device_steps;
  sum.device_busy_seconds += after.device_busy_seconds - before.device_busy_seconds;
  sum.device_launching_seconds += after.device_launching_seconds - before.device_launching_seconds;
  sum.drafters.resize(after.drafters.size());
  for (std::size_t d = 0; d < after.drafters.size(); ++d) {
    sum.drafters[d].num_foreseen += after.drafters[d].num_foreseen - before.drafters.at(d).num_foreseen;
    sum.drafters[d].num_ready += after.drafters[d].num_ready - before.drafters.at(d).num_ready;
  }
}

/// Client and engine read the same clock. The log is that of the only model.
void note_commits(arm_figures& figures, engine& runtime, const std::vector<delivery>& group) {
  const auto* const log = engine_probe(runtime).log("default");
  if (log == nullptr) return;
  std::vector<time_point> commits;
  for (const auto& span : log->last_spans())
    if (span.who == activity::side::target) commits.push_back(span.end);
  std::ranges::sort(commits);
  for (const auto& d : group)
    for (const auto& each : d.arrivals) {
      const auto next = std::ranges::upper_bound(commits, each.time);
      if (next != commits.begin() && *(next - 1) > d.sent)
        figures.commit_to_client.push_back(seconds(each.time - *(next - 1)));
    }
}

/// Runs one group in one arm and adds the result to its figures.
expected<std::vector<delivery>> run_arm(engine& runtime, const door_set& doors, const arm& with,
                                        std::span<const errand> errands, arm_figures& figures) {
  const auto before = snapshot_at_rest(runtime);
  auto got = deliver_together(doors.at(with.through), errands);
  if (!got)
    return std::move(got).error().within(with.name() + " through " + std::string(name_of(with.through)));
  add_difference(figures.spent, before.models.front(), snapshot_at_rest(runtime).models.front());
  figures.wall_seconds += wall_of(*got);
  note(figures, *got);
  note_full_periods(figures, *got);
  note_commits(figures, runtime, *got);
  return got;
}

/// A short request in each arm, which is not counted: the first use of a door or drafter has additional
/// costs.
expected<void> warm_up(const door_set& doors, std::span<const arm> arms, const run_settings& settings,
                       std::span<const workload_prompt> prompts) {
  for (const arm& with : arms) {
    auto one = errands_of(settings, with, 0, prompts.first(1));
    one.resize(1);
    one.front().salt = "warm-up";
    one.front().max_tokens = std::min(settings.max_tokens, 8U);
    auto got = deliver_together(doors.at(with.through), one);
    if (!got)
      return std::move(got).error().within(with.name() + " through " + std::string(name_of(with.through)));
  }
  return {};
}

} // namespace

std::string arm::name() const {
  auto text = drafter;
  if (draft_length) text += "/" + std::to_string(*draft_length);
  if (overlap) text += " " + std::string(overlap_request_names[static_cast<std::size_t>(*overlap)]);
  return text;
}

double arm_figures::acceptance_rate() const { return ratio(num_accepted_tokens, num_draft_tokens); }
double arm_figures::alpha() const {
  return ratio(num_accepted_tokens, num_accepted_tokens + num_rounds - num_full_rounds);
}
double arm_figures::acceptance_length() const { return 1 + ratio(num_accepted_tokens, num_rounds); }

double arm_figures::period() const {
  return num_full_periods == 0 ? 0 : full_period_seconds / static_cast<double>(num_full_periods);
}

double arm_figures::ready_share() const {
  std::uint64_t num_foreseen = 0, num_ready = 0;
  for (const auto& d : spent.drafters) num_foreseen += d.num_foreseen, num_ready += d.num_ready;
  return ratio(num_ready, num_foreseen);
}

double arm_figures::accepted_at(std::uint32_t position) const {
  std::uint64_t rounds = 0;
  for (std::size_t j = position + 1; j < acceptance_histogram.size(); ++j) rounds += acceptance_histogram[j];
  return ratio(rounds, num_rounds);
}

std::vector<double> ratios(const arm_figures& with, const arm_figures& base) {
  std::vector<double> out;
  for (std::size_t g = 0; g < with.rates.size(); ++g) out.push_back(with.rates[g] / base.rates[g]);
  return out;
}

expected<std::vector<arm_figures>> measure(engine& runtime, const door_set& doors, std::span<const arm> arms,
                                           const run_settings& settings,
                                           std::span<const workload_prompt> prompts, bool quiet) {
  if (auto warm = warm_up(doors, arms, settings, prompts); !warm) return std::move(warm).error();
  std::vector<arm_figures> figures(arms.size());
  const std::size_t num_groups = settings.pairs > 0
                                     ? settings.pairs
                                     : (prompts.size() + settings.concurrency - 1) / settings.concurrency;
  for (std::size_t group = 0; group < num_groups; ++group) {
    std::vector<std::vector<delivery>> results(arms.size());
    for (std::size_t k = 0; k < arms.size(); ++k) {
      const std::size_t a =
          (group + settings.seed) % 2 == 1 ? k : arms.size() - 1 - k; // the order depends on the seed, too
      auto got = run_arm(runtime, doors, arms[a], errands_of(settings, arms[a], group, prompts), figures[a]);
      if (!got) return std::move(got).error();
      results[a] = *std::move(got);
    }
    for (std::size_t a = 0; a < arms.size(); ++a) {
      for (std::size_t i = 0; i < results[a].size(); ++i)
        figures[a].num_different +=
            results[a][i].tokens != results[0][i].tokens || results[a][i].text != results[0][i].text ? 1 : 0;
      figures[a].rates.push_back(rate_of(results[a]));
      figures[a].speed_ups.push_back(figures[a].rates.back() / figures[0].rates[group]);
      if (const auto decode = decode_rate_of(results[a])) figures[a].decode_rates.push_back(*decode);
    }
    if (!quiet) std::fprintf(stderr, "\r%zu of %zu groups", group + 1, num_groups);
  }
  if (!quiet) std::fprintf(stderr, "\n");
  return figures;
}

} // namespace paceline::apps::bench
