#include "apps/bench/arms.hpp"

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

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Runs a group of prompts at the same time.
std::vector<generated> run_group(engine& runtime, const run_settings& settings, const arm& with,
                                 std::span<const std::vector<token_id>> prompts) {
  std::vector<std::future<generated>> running;
  for (const auto& prompt : prompts) {
    generation_request request;
    request.prompt = prompt;
    request.stop.max_tokens = settings.max_tokens;
    request.sampling.temperature = settings.temperature;
    request.sampling.seed = settings.seed;
    request.speculation.drafter = with.drafter;
    request.speculation.draft_length = with.draft_length;
    request.speculation.overlap = with.overlap;
    // What one arm computed or wrote is no gift to the next: neither prompts in the cache nor replies to
    // draft from.
    request.cache_salt = request.tenant = with.name();
    running.push_back(std::async(std::launch::async, [&runtime, r = std::move(request)]() mutable {
      return generate(runtime, std::move(r), nullptr);
    }));
  }
  std::vector<generated> out;
  for (auto& r : running) out.push_back(r.get());
  return out;
}

/// Tokens per second of a group: from the first token on where it is one request, over its whole time where
/// several share the machine.
double rate_of(const std::vector<generated>& group, double wall_seconds) {
  std::size_t tokens = 0;
  for (const auto& g : group) tokens += g.tokens.size();
  if (group.size() > 1) return static_cast<double>(tokens) / wall_seconds;
  return static_cast<double>(tokens - 1) / seconds(group.front().last.timings->decode);
}

void note(arm_figures& figures, const std::vector<generated>& group) {
  for (const generated& g : group) {
    figures.num_tokens += g.tokens.size();
    figures.first_token.push_back(seconds(g.last.timings->queued + g.last.timings->prefill));
    for (std::size_t i = 1; i < g.arrivals.size(); ++i)
      figures.gaps.push_back(seconds(g.arrivals[i] - g.arrivals[i - 1]));
    if (!g.last.speculation) continue;
    const speculation_stats& stats = *g.last.speculation;
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

/// Rounds while all requests of the group decoded.
void note_full_periods(arm_figures& figures, const std::vector<generated>& group) {
  // A prompt's own, one while the drafter's memory is asked for, one for which the drafter reads the prompt.
  constexpr std::size_t settled = 3;
  if (std::ranges::any_of(group, [](const auto& g) { return g.arrivals.size() <= settled; })) return;
  auto from = group.front().arrivals[settled - 1], to = group.front().arrivals.back();
  for (const auto& g : group)
    from = std::max(from, g.arrivals[settled - 1]), to = std::min(to, g.arrivals.back());
  for (const auto& g : group) {
    const auto first = std::ranges::lower_bound(g.arrivals, from),
               end = std::ranges::upper_bound(g.arrivals, to);
    if (end - first < 2) continue;
    figures.num_full_periods += static_cast<std::uint64_t>(end - first - 1);
    figures.full_period_seconds += seconds(*(end - 1) - *first);
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

} // namespace

std::string arm::name() const {
  auto text = drafter;
  if (draft_length) text += "/" + std::to_string(*draft_length);
  if (overlap) text += " " + std::string(overlap_wish_names[static_cast<std::size_t>(*overlap)]);
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

expected<std::vector<std::vector<token_id>>> read_workload(const std::string& path, std::uint32_t most,
                                                           std::uint32_t max_tokens,
                                                           const served_model& model) {
  std::ifstream file(path);
  if (!file) return error(errc::not_found, path + ": cannot be opened");
  std::vector<std::vector<token_id>> prompts;
  std::uint32_t number = 0;
  for (std::string line; std::getline(file, line) && (most == 0 || prompts.size() < most);) {
    ++number;
    const std::string place = path + ":" + std::to_string(number);
    boost::system::error_code failed;
    const json::value parsed = json::parse(line, failed);
    const json::object* const item = failed ? nullptr : parsed.if_object();
    if (item == nullptr) return error(errc::invalid_file, place + ": not a JSON object");
    const json::value* const messages = item->if_contains("messages");
    const json::value* const prompt = item->if_contains("prompt");
    auto tokens = messages != nullptr && messages->is_array() ? chat_prompt(model, messages->get_array())
                  : prompt != nullptr && prompt->is_string()
                      ? model.vocabulary().encode(prompt->get_string())
                      : expected<std::vector<token_id>>(
                            error(errc::invalid_file, "neither \"messages\" nor \"prompt\""));
    if (!tokens) return std::move(tokens).error().within(place);
    if (tokens->size() + max_tokens > model.context_length()) {
      std::fprintf(stderr, "%s: %zu tokens do not fit the context, left out\n", place.c_str(),
                   tokens->size());
      continue;
    }
    prompts.push_back(*std::move(tokens));
  }
  if (prompts.empty()) return error(errc::invalid_file, path + ": no prompts");
  return prompts;
}

expected<std::vector<arm_figures>> measure(engine& runtime, std::span<const arm> arms,
                                           const run_settings& settings,
                                           std::span<const std::vector<token_id>> prompts, bool quiet) {
  std::vector<arm_figures> figures(arms.size());
  for (std::size_t begin = 0, group = 0; begin < prompts.size(); begin += settings.concurrency, ++group) {
    const auto part =
        prompts.subspan(begin, std::min<std::size_t>(settings.concurrency, prompts.size() - begin));
    std::vector<std::vector<generated>> results(arms.size());
    std::vector<double> rates(arms.size());
    bool comparable = true;
    for (std::size_t k = 0; k < arms.size(); ++k) {
      const std::size_t a =
          (group + settings.seed) % 2 == 1 ? k : arms.size() - 1 - k; // turns with the seed, too
      const auto before = snapshot_at_rest(runtime);
      const auto start = steady_clock::now();
      results[a] = run_group(runtime, settings, arms[a], part);
      const double wall = seconds(steady_clock::now() - start);
      add_difference(figures[a].spent, before.models.front(), snapshot_at_rest(runtime).models.front());
      figures[a].wall_seconds += wall;
      figures[a].rates_count_prompts = settings.concurrency > 1;
      for (const auto& g : results[a])
        if (g.last.failure || !g.last.timings)
          return g.last.failure ? *g.last.failure : error(errc::internal, "a generation ended early");
      note(figures[a], results[a]);
      note_full_periods(figures[a], results[a]);
      comparable = comparable && (part.size() > 1 || results[a].front().tokens.size() > 1);
      if (comparable) rates[a] = rate_of(results[a], wall);
    }
    for (std::size_t a = 0; a < arms.size(); ++a) {
      for (std::size_t i = 0; i < part.size(); ++i)
        figures[a].num_different += results[a][i].tokens != results[0][i].tokens ? 1 : 0;
      if (!comparable) continue;
      figures[a].rates.push_back(rates[a]);
      figures[a].speed_ups.push_back(rates[a] / rates[0]);
    }
    if (!quiet) std::fprintf(stderr, "\r%zu of %zu prompts", begin + part.size(), prompts.size());
  }
  if (!quiet) std::fprintf(stderr, "\n");
  return figures;
}

} // namespace paceline::apps::bench
