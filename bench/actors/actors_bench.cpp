// What the actors cost a round: messages, allocations, and how long the device waits while work is runnable.
//
// Each case is generated twice, short and long; counters are differences of the two, so that admission,
// prompt and end cancel out. Device idle time is the gap between programs of the partition in the long run's
// activity log.
#include "bench/actors/allocation_count.hpp"
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "protocol/wire/json_text.hpp"

#include <boost/json.hpp>
#include <caf/all.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>

namespace paceline::bench {
namespace {

struct bench_options {
  std::string model; ///< GGUF file; empty: the weightless model only
  std::string draft_model;
  std::uint32_t threads = 2;
  std::uint32_t short_run = 40, long_run = 200; ///< tokens a request
  std::uint32_t repeats = 5;
  bool json = false;
};

struct bench_case {
  std::string model;
  std::string drafter;
  std::uint32_t num_requests = 1;
};

/// Counters since start.
struct reading {
  std::uint64_t num_rounds = 0;
  std::uint64_t num_tokens = 0;
  std::map<std::string, std::uint64_t> num_messages; ///< by kind of actor
  allocation_counts allocations;
};

struct figures {
  double tokens = 0; ///< all of these a round
  std::map<std::string, double> messages;
  double actor_allocations = 0;
  double other_allocations = 0;
  double round_us = 0; ///< median distance of two verifications
  double idle_us = 0;  ///< median gap
  double idle_p90_us = 0;
  double idle_share = 0; ///< of the whole run, gaps of any length
};

class bench_configuration final : public caf::actor_system_config {
 public:
  bench_configuration() {
    engine::prepare(*this);
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::size_t{2});
    add_thread_hook<marking_hook>();
  }

 private:
  struct marking_hook final : caf::thread_hook {
    void init(caf::actor_system&) override {}
    void thread_started() override { mark_actor_thread(); }
    void thread_terminates() override {}
  };
};

config::engine_options engine_options(const bench_options& wanted) {
  config::engine_options options;
  const auto add_model = [&](const std::string& name, const std::string& path) {
    config::model_options model;
    model.name = name;
    model.kind = path.empty() ? "hash" : "file";
    model.path = path;
    model.context_length = 512;
    model.hash.memory = 1; // the text soon repeats itself, so that n-grams are accepted
    config::drafter_options ngram;
    ngram.name = ngram.kind = "ngram";
    ngram.draft_length = 4;
    model.drafters.push_back(ngram);
    if (!path.empty() && !wanted.draft_model.empty()) {
      auto own = ngram;
      own.name = own.kind = "model";
      own.path = wanted.draft_model;
      own.draft_length = 3;
      model.drafters.push_back(own);
    }
    options.models.push_back(std::move(model));
  };
  add_model("hash", "");
  if (!wanted.model.empty()) add_model("file", wanted.model);
  options.threads = wanted.threads;
  options.prefix_cache = false; // every run computes the same rows
  return options;
}

/// Generates `num_tokens` for each request of `one` and waits for the end.
void generate(engine& runtime, const bench_case& one, std::uint32_t num_tokens) {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint32_t num_open = one.num_requests;
  for (std::uint32_t r = 0; r < one.num_requests; ++r) {
    generation_request request;
    request.model = one.model;
    for (std::int32_t i = 0; i < 16; ++i)
      request.prompt.emplace_back(100 + (i * 7 + static_cast<std::int32_t>(r) * 13) % 120);
    request.stop.max_tokens = num_tokens;
    request.stop.ignore_eos = true;
    request.sampling.temperature = 0;
    request.speculation.drafter = one.drafter;
    runtime.submit(std::move(request), [&](const token_event& event) {
      if (event.finish == finish_reason::none) return;
      std::lock_guard lock(mutex);
      if (event.failure) std::fprintf(stderr, "actors_bench: %s\n", event.failure->message().c_str());
      if (--num_open == 0) changed.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return num_open == 0; });
}

reading read(const engine& runtime, const std::string& model) {
  const auto snapshot = runtime.snapshot();
  reading out;
  const auto counters = std::ranges::find(snapshot.models, model, &model_counters::name);
  out.num_rounds = counters->num_rounds;
  out.num_tokens = counters->generation_tokens;
  for (const auto& actor : snapshot.actors)
    out.num_messages[actor.name.substr(0, actor.name.find('/'))] += actor.num_messages;
  out.allocations = count_allocations();
  return out;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Gaps between programs of `spans`, which ran on one partition, and distances of verifications.
void read_spans(std::vector<activity::span> spans, figures& out) {
  std::ranges::sort(spans, {}, &activity::span::begin);
  std::vector<double> gaps, rounds;
  std::optional<time_point> busy_until, last_verification;
  const auto us = [](auto d) { return std::chrono::duration<double, std::micro>(d).count(); };
  double idle = 0;
  for (const auto& span : spans) {
    if (busy_until) {
      gaps.push_back(us(std::max(span.begin - *busy_until, std::chrono::nanoseconds(0))));
      idle += gaps.back();
    }
    busy_until = std::max(span.end, busy_until.value_or(span.end));
    if (span.who != activity::side::target) continue;
    if (last_verification) rounds.push_back(us(span.begin - *last_verification));
    last_verification = span.begin;
  }
  if (gaps.empty()) return;
  out.idle_us = median(gaps);
  std::ranges::sort(gaps);
  out.idle_p90_us = gaps[gaps.size() * 9 / 10];
  out.idle_share = idle / us(spans.back().end - spans.front().begin);
  out.round_us = median(std::move(rounds));
}

figures measure_once(engine& runtime, const bench_case& one, const bench_options& options) {
  const auto start = read(runtime, one.model);
  generate(runtime, one, options.short_run);
  const auto middle = read(runtime, one.model);
  const auto* const log = engine_probe(runtime).log(one.model);
  const auto before = steady_clock().now();
  generate(runtime, one, options.long_run);
  const auto end = read(runtime, one.model);
  auto spans = log->last_spans();
  std::erase_if(spans, [&](const auto& span) { return span.begin < before; });
  constexpr std::size_t margin = 4; // leaves out the prompt and the end
  if (spans.size() > 2 * margin) spans = {spans.begin() + margin, spans.end() - margin};

  figures out;
  const auto a_round = [&](auto value) {
    const auto grown = [&](const reading& from, const reading& to) {
      return static_cast<double>(value(to) - value(from));
    };
    return (grown(middle, end) - grown(start, middle)) /
           static_cast<double>(end.num_rounds - middle.num_rounds - (middle.num_rounds - start.num_rounds));
  };
  out.tokens = a_round([](const reading& r) { return r.num_tokens; });
  for (const auto& [kind, num] : end.num_messages)
    out.messages[kind] = a_round(
        [&](const reading& r) { return r.num_messages.contains(kind) ? r.num_messages.at(kind) : 0; });
  out.actor_allocations = a_round([](const reading& r) { return r.allocations.on_actor_threads; });
  out.other_allocations = a_round([](const reading& r) { return r.allocations.elsewhere; });
  read_spans(std::move(spans), out);
  return out;
}

/// The run with the median idle time.
figures measure(engine& runtime, const bench_case& one, const bench_options& options) {
  std::vector<figures> runs;
  measure_once(runtime, one, options); // warms up
  for (std::uint32_t r = 0; r < options.repeats; ++r) runs.push_back(measure_once(runtime, one, options));
  std::ranges::sort(runs, {}, &figures::idle_us);
  return runs[runs.size() / 2];
}

double all_messages(const figures& f) {
  double sum = 0;
  for (const auto& [kind, num] : f.messages) sum += num;
  return sum;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

boost::json::object to_json(const bench_case& one, const figures& f) {
  boost::json::object messages;
  for (const auto& [kind, num] : f.messages) messages[kind] = num;
  return {{"model", one.model},
          {"drafter", one.drafter},
          {"requests", one.num_requests},
          {"tokens_per_round", f.tokens},
          {"messages_per_round", all_messages(f)},
          {"messages", std::move(messages)},
          {"actor_allocations_per_round", f.actor_allocations},
          {"other_allocations_per_round", f.other_allocations},
          {"round_us", f.round_us},
          {"idle_us", f.idle_us},
          {"idle_p90_us", f.idle_p90_us},
          {"idle_share", f.idle_share}};
}

void print_row(const bench_case& one, const figures& f) {
  std::printf("| %s | %s | %u | %.2f | %.1f | %.0f | %.0f | %.0f | %.1f | %.1f | %.2f %% | %.2f %% |\n",
              one.model.c_str(), one.drafter.c_str(), one.num_requests, f.tokens, all_messages(f),
              f.actor_allocations, f.other_allocations, f.round_us, f.idle_us, f.idle_p90_us,
              100 * f.idle_us / f.round_us, 100 * f.idle_share);
  std::fflush(stdout);
}

int run(const bench_options& options) {
  bench_configuration configuration;
  caf::actor_system system(configuration);
  auto started = engine::start(system, engine_options(options));
  if (!started) {
    std::fprintf(stderr, "actors_bench: %s\n", started.error().message().c_str());
    return EXIT_FAILURE;
  }
  std::vector<bench_case> cases{{"hash", "none", 1}, {"hash", "ngram", 1}, {"hash", "none", 8}};
  if (!options.model.empty())
    cases.insert(cases.end(), {{"file", "none", 1}, {"file", "ngram", 1}, {"file", "none", 8}});
  if (!options.model.empty() && !options.draft_model.empty()) cases.push_back({"file", "model", 1});
  boost::json::array rows;
  if (!options.json)
    std::printf("%s, load %.2f, %u threads\n\n| model | drafter | requests | tokens a round | messages | "
                "allocations, actors | "
                "allocations, streams | round, us | idle, us (median) | idle, us (p90) | idle of a round | "
                "idle in all |\n"
                "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
                cpu_name().c_str(), load_average(), options.threads);
  for (const auto& one : cases) {
    const auto f = measure(**started, one, options);
    if (!options.json) print_row(one, f);
    rows.push_back(to_json(one, f));
  }
  if (options.json)
    std::cout << wire::json_text(boost::json::object{{"bench", "actors"},
                                                     {"cpu", cpu_name()},
                                                     {"load", load_average()},
                                                     {"threads", options.threads},
                                                     {"cases", std::move(rows)}})
              << '\n';
  return EXIT_SUCCESS;
}

constexpr const char* usage =
    "actors_bench [--model FILE] [--draft-model FILE] [--threads N] [--tokens N] [--repeats N] [--json]\n"
    "Messages, allocations and device idle time a round, with the weightless model and, if given, a model "
    "file.\n";

std::optional<bench_options> parse(int argc, char** argv) {
  bench_options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == argc) return std::nullopt;
    const char* const value = argv[++i];
    const auto number = [&] { return static_cast<std::uint32_t>(std::strtoul(value, nullptr, 10)); };
    if (name == "--model")
      options.model = value;
    else if (name == "--draft-model")
      options.draft_model = value;
    else if (name == "--threads")
      options.threads = number();
    else if (name == "--tokens")
      options.long_run = std::clamp(number(), options.short_run + 10, 480U);
    else if (name == "--repeats")
      options.repeats = std::max(number(), 1U);
    else
      return std::nullopt;
  }
  return options;
}

} // namespace
} // namespace paceline::bench

int main(int argc, char** argv) {
  const auto options = paceline::bench::parse(argc, argv);
  if (options) return paceline::bench::run(*options);
  std::fputs(paceline::bench::usage, stderr);
  return 2;
}
