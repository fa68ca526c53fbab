// Replays recorded texts through real in-line drafters in virtual time: what "auto" would have taken, and
// what every fixed setting. Tokens do not depend on speculation, so one recording serves all settings.
//
// Each line of the recording is {"workload", "temperature", "prompt": [ids], "output": [ids]}.
#include "runtime/device/ops.hpp"
#include "runtime/speculation/control/draft_controller.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>

namespace {

using namespace paceline;
using namespace paceline::speculation;
namespace json = boost::json;

struct text {
  std::string workload;
  int temperature = 0;
  std::vector<token_id> tokens;
  std::uint32_t prompt_length = 0;
};

std::vector<token_id> ids(const json::value& v) {
  std::vector<token_id> out;
  for (const auto& x : v.as_array()) out.emplace_back(x.to_number<std::int32_t>());
  return out;
}

std::vector<text> load(const char* path, std::size_t max_output) {
  std::vector<text> all;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto v = json::parse(line);
    text t;
    t.workload = v.at("workload").as_string().c_str();
    t.temperature = v.at("temperature").to_number<int>();
    t.tokens = ids(v.at("prompt"));
    t.prompt_length = static_cast<std::uint32_t>(t.tokens.size());
    auto out = ids(v.at("output"));
    if (out.size() > max_output) out.resize(max_output);
    t.tokens.insert(t.tokens.end(), out.begin(), out.end());
    if (out.size() > 2) all.push_back(std::move(t));
  }
  return all;
}

struct curve {
  std::vector<std::pair<double, double>> points;
  double v1 = 1;
  double operator()(double rows) const {
    for (std::size_t i = 1; i < points.size(); ++i)
      if (rows <= points[i].first || i + 1 == points.size()) {
        const auto [x0, y0] = points[i - 1];
        const auto [x1, y1] = points[i];
        return y0 + (y1 - y0) * (rows - x0) / (x1 - x0);
      }
    return 1;
  }
};

const curve qwen{{{1, 1},
                  {2, 1.07},
                  {3, 1.15},
                  {4, 1.19},
                  {5, 1.22},
                  {6, 1.30},
                  {7, 1.38},
                  {8, 1.45},
                  {9, 1.75},
                  {10, 1.9},
                  {12, 2.1},
                  {14, 2.3},
                  {16, 2.45},
                  {17, 2.75},
                  {24, 3.6},
                  {32, 4.6}},
                 14.5e6};
const curve smol{{{1, 1},
                  {2, 1.06},
                  {3, 1.13},
                  {4, 1.21},
                  {5, 1.28},
                  {6, 1.37},
                  {7, 1.48},
                  {8, 1.59},
                  {9, 1.8},
                  {10, 1.97},
                  {12, 2.3},
                  {14, 2.55},
                  {16, 2.85},
                  {17, 3.1},
                  {24, 4.2},
                  {32, 5.5}},
                 3.0e6};

struct no_ops final : device::ops {
  std::string_view level() const noexcept override { return "none"; }
};

double cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}

const sampling::pipeline& greedy() {
  static const sampling::pipeline p(sampling_params{}, {});
  return p;
}

/// One drafter and its session with one text.
struct seat {
  drafter* d = nullptr;
  std::unique_ptr<drafter_session> session;
  draft propose(const text& t, std::uint32_t at, std::uint32_t length, std::uint32_t nodes, double& spent) {
    draft_task task{};
    task.request = request_id{1};
    task.tokens = std::span(t.tokens).first(at);
    task.sampling = &greedy();
    task.prompt_length = t.prompt_length;
    task.rule = verification_rule::coupled;
    task.draft_length = length;
    task.max_nodes = nodes;
    task.max_rows = 192;
    task.max_probe_depth = 64;
    task.tenant = "t";
    task.session = session.get();
    task.result.base_length = at;
    no_ops ops;
    const double before = cpu_ns();
    d->propose(ops, nullptr, {&task, 1});
    spent += cpu_ns() - before;
    return std::move(task.result);
  }
};

std::unique_ptr<drafter> make(const char* kind, std::uint32_t corpus_tokens) {
  config::drafter_options o;
  o.name = o.kind = kind;
  o.corpus_tokens = corpus_tokens;
  auto made = drafter_registry::with_built_in().make(
      {.options = o, .own_model = nullptr, .target_vocab_size = 200000});
  if (!made) throw std::runtime_error(made.error().message());
  return *std::move(made);
}

std::map<std::tuple<std::size_t, int, int, int>, std::pair<double, double>> g_counts;
const bool g_counting = std::getenv("COUNTS") != nullptr;
void count(std::size_t candidate, const draft& made, const text& t, std::uint32_t at) {
  std::int32_t node = token_tree::root;
  for (std::uint32_t d = 0; at + d < t.tokens.size(); ++d) {
    int rank = 0;
    bool found = false;
    for (std::uint32_t n = static_cast<std::uint32_t>(node + 1); n < made.tree.size(); ++n) {
      if (made.tree.parents()[n] != node) continue;
      const bool right = made.tree.tokens()[n] == t.tokens[at + d];
      auto& c = g_counts[{candidate, made.signals[n],
                          d == 0  ? 0
                          : d < 2 ? 1
                          : d < 4 ? 2
                          : d < 8 ? 3
                                  : 4,
                          std::min(rank, 2)}];
      c.first += right;
      c.second += 1;
      ++rank;
      if (right) {
        node = static_cast<std::int32_t>(n);
        found = true;
        break;
      }
    }
    if (!found) return;
  }
}

std::uint32_t accepted(const draft& made, const text& t, std::uint32_t at) {
  std::int32_t node = token_tree::root;
  std::uint32_t right = 0;
  while (at + right + 1 < t.tokens.size()) {
    const auto next = made.tree.child(node, t.tokens[at + right]);
    if (!next) break;
    node = *next;
    ++right;
  }
  return right;
}

struct result {
  double ns = 0, drafting = 0;
  std::uint32_t rounds = 0, drafted = 0, kept = 0;
};

struct machine {
  const curve* v;
  std::mt19937_64 random{1};
  double scatter = 0.03;
  double pass(double rows, double& charged) {
    charged = (*v)(rows)*v->v1; // without noise: arms are compared
    return charged * std::lognormal_distribution<double>(0, scatter)(random);
  }
};

result fixed(const text& t, drafter* d, std::uint32_t length, machine& m) {
  result r;
  seat s{d, d ? d->open(request_id{1}) : nullptr};
  for (auto at = t.prompt_length + 1; at < t.tokens.size();) {
    draft made;
    const auto left = static_cast<std::uint32_t>(t.tokens.size() - at - 1);
    if (d && left > 0)
      made = s.propose(t, at, std::min(length, left), 2 * std::min(length, left), r.drafting);
    double charged = 0;
    m.pass(1 + made.tree.size(), charged);
    r.ns += charged;
    const auto right = accepted(made, t, at);
    r.drafted += made.tree.size();
    r.kept += right;
    ++r.rounds;
    at += right + 1;
  }
  r.ns += r.drafting;
  return r;
}

result automatic(const text& t, std::vector<drafter*>& ds, draft_controller& c, machine& m, bool verbose) {
  result r;
  std::vector<seat> seats;
  for (auto* d : ds) seats.push_back({d, d->open(request_id{1})});
  draft_history history;
  for (auto at = t.prompt_length + 1; at < t.tokens.size();) {
    const auto left = static_cast<std::uint32_t>(t.tokens.size() - at - 1);
    const double before = cpu_ns();
    c.learn(history, std::span(t.tokens).first(at));
    std::vector<draft_controller::request_choice> one(1);
    one[0].history = &history;
    one[0].proposals.resize(seats.size());
    for (std::uint32_t k = 0; left > 0 && k < seats.size(); ++k) {
      if (!c.asks(history, k)) continue;
      double spent = 0;
      one[0].proposals[k] = seats[k].propose(t, at, std::min(16U, left), 32, spent);
      c.observe_proposing(k, 1, spent);
      if (g_counting) count(k, one[0].proposals[k], t, at);
    }
    if (left > 0) c.choose(one, {});
    r.drafting += cpu_ns() - before;
    const auto& made = one[0].chosen;
    double charged = 0;
    const double seen = m.pass(1 + made.tree.size(), charged);
    c.observe(1 + made.tree.size(), seen);
    r.ns += charged;
    const auto right = accepted(made, t, at);
    if (verbose)
      std::printf("  at %u cand %u drafted %u right %u\n", at - t.prompt_length, one[0].candidate,
                  made.tree.size(), right);
    r.drafted += made.tree.size();
    r.kept += right;
    ++r.rounds;
    at += right + 1;
  }
  r.ns += r.drafting;
  return r;
}

} // namespace

int main(int argc, char** argv) {
  const std::string file = argv[1];
  const bool is_qwen = file.find("qwen") != std::string::npos;
  const std::size_t max_output = argc > 2 ? std::stoul(argv[2]) : 200;
  const bool cold = argc > 3 && std::string(argv[3]) == "cold";
  const bool verbose = argc > 4;
  const auto texts = load(argv[1], max_output);
  std::map<std::pair<std::string, int>, std::vector<const text*>> groups;
  for (const auto& t : texts) groups[{t.workload, t.temperature}].push_back(&t);
  machine m{is_qwen ? &qwen : &smol};
  const auto make_controller = [&](std::uint64_t seed) {
    std::vector<acceptance_table::prior> priors;
    for (const char* kind : {"ngram", "suffix"}) priors.push_back(make(kind, 0)->traits().first_acceptance);
    draft_controller c(priors, 2);
    std::mt19937_64 random(seed);
    std::lognormal_distribution<double> scatter(0, 0.02);
    std::vector<pass_time> times;
    for (std::uint32_t r : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24, 32})
      times.push_back({r, m.v->v1 * (*m.v)(r)*scatter(random)});
    c.calibrate(times);
    return c;
  };
  // Warm: the controller has seen one request of every workload, and the groups come one after another.
  draft_controller warm = make_controller(7);
  for (auto& [key, group] : groups) {
    struct arm {
      std::string name;
      const char* kind;
      std::uint32_t length;
      std::vector<result> results;
    };
    std::vector<arm> arms{{"plain", nullptr, 0, {}},
                          {"ngram2", "ngram", 2, {}},
                          {"ngram5", "ngram", 5, {}},
                          {"ngram8", "ngram", 8, {}},
                          {"suffix5", "suffix", 5, {}}};
    std::vector<result> autos;
    for (const auto* t : group) {
      for (auto& a : arms) {
        auto d = a.kind ? make(a.kind, 0) : nullptr;
        a.results.push_back(fixed(*t, d.get(), a.length, m));
      }
      auto n = make("ngram", 0), s = make("suffix", 0);
      std::vector<drafter*> ds{n.get(), s.get()};
      draft_controller fresh = make_controller(t->tokens.size());
      if (verbose) std::printf("text %zu tokens\n", t->tokens.size() - t->prompt_length);
      autos.push_back(automatic(*t, ds, cold ? fresh : warm, m, verbose));
    }
    // The best fixed arm is chosen on odd texts for even ones and the other way round.
    std::vector<double> ratios, against_plain;
    std::string chosen[2];
    for (std::size_t half = 0; half < 2; ++half) {
      std::size_t best = 0;
      double least = 1e300;
      for (std::size_t a = 0; a < arms.size(); ++a) {
        double sum = 0; // of logarithms: each text counts the same
        for (std::size_t i = 0; i < group.size(); ++i)
          if (i % 2 != half) sum += std::log(arms[a].results[i].ns / arms[0].results[i].ns);
        if (sum < least) least = sum, best = a;
      }
      chosen[half] = arms[best].name;
      for (std::size_t i = half; i < group.size(); i += 2) {
        ratios.push_back(arms[best].results[i].ns / autos[i].ns);
        against_plain.push_back(arms[0].results[i].ns / autos[i].ns);
      }
    }
    std::ranges::sort(ratios);
    std::ranges::sort(against_plain);
    const auto q = [](const std::vector<double>& v, double p) {
      return v[static_cast<std::size_t>(p * static_cast<double>(v.size() - 1))];
    };
    double drafting = 0, rounds = 0;
    for (auto& a : autos) drafting += a.drafting, rounds += a.rounds;
    std::printf(
        "%-14s t%d n=%zu best %s/%s | auto/best median %.3f p10 %.3f | auto/plain median %.3f p10 %.3f worst %.3f | draft us/round %.1f |",
        key.first.c_str(), key.second, group.size(), chosen[0].c_str(), chosen[1].c_str(), q(ratios, .5),
        q(ratios, .1), q(against_plain, .5), q(against_plain, .1), against_plain.front(),
        drafting / rounds / 1e3);
    for (auto& a : arms) {
      std::vector<double> s;
      for (std::size_t i = 0; i < group.size(); ++i) s.push_back(arms[0].results[i].ns / a.results[i].ns);
      std::ranges::sort(s);
      std::printf(" %s %.2f", a.name.c_str(), q(s, .5));
    }
    std::printf("\n");
  }
  if (std::getenv("COUNTS"))
    for (const auto& [k, c] : g_counts) {
      const auto [cand, sig, depth, rank] = k;
      std::printf("cand %zu signal %d depth %d rank %d: %.3f of %.0f\n", cand, sig, depth, rank,
                  c.first / c.second, c.second);
    }
}
