// Replays recorded texts through the real in-line drafters in virtual time: what "auto" takes, and what every
// fixed setting takes. Tokens do not depend on speculation, so one recording (record.py) serves all settings,
// and the figures have no noise of a machine. Drafting is charged with the processor time that it takes here.
#include "runtime/device/ops.hpp"
#include "runtime/speculation/control/draft_controller.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace paceline;
using namespace paceline::speculation;
namespace json = boost::json;

struct text {
  std::vector<token_id> tokens;
  std::uint32_t prompt_length = 0;
};
using group_key = std::pair<std::string, int>; ///< workload, temperature

/// V(T) of a model: nanoseconds of a pass by its number of rows, with straight lines between the measured
/// points.
class curve {
 public:
  /// Reads the output of `paceline bench cost --json`.
  explicit curve(const json::value& measured) {
    for (const auto& pass : measured.at("passes").as_array())
      points_.push_back({pass.at("rows").to_number<std::uint32_t>(),
                         1e9 * pass.at("seconds").at("median").to_number<double>()});
    if (points_.size() < 2 || points_.front().rows != 1)
      throw std::runtime_error("the costs of one row and of more are needed");
  }
  double operator()(std::uint32_t rows) const {
    std::size_t above = 1;
    while (above + 1 < points_.size() && points_[above].rows < rows) ++above;
    const auto &low = points_[above - 1], &high = points_[above];
    const double slope = (high.nanoseconds - low.nanoseconds) / (high.rows - low.rows);
    return low.nanoseconds + slope * (static_cast<double>(rows) - low.rows);
  }
  const std::vector<pass_time>& points() const { return points_; }

 private:
  std::vector<pass_time> points_;
};

std::map<group_key, std::vector<text>> read_texts(const std::string& path, std::size_t most_tokens) {
  std::map<group_key, std::vector<text>> groups;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto record = json::parse(line);
    text one;
    const auto add = [&](const char* key, std::size_t most) {
      for (const auto& id : record.at(key).as_array())
        if (most-- > 0)
          one.tokens.emplace_back(id.to_number<std::int32_t>());
        else
          break;
    };
    add("prompt", static_cast<std::size_t>(-1));
    one.prompt_length = static_cast<std::uint32_t>(one.tokens.size());
    add("output", most_tokens);
    if (one.tokens.size() < one.prompt_length + 3) continue;
    groups[{record.at("workload").as_string().c_str(), record.at("temperature").to_number<int>()}].push_back(
        std::move(one));
  }
  return groups;
}

struct no_ops final : device::ops {
  std::string_view level() const noexcept override { return "none"; }
};

double processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

std::unique_ptr<drafter> made(const std::string& kind) {
  config::drafter_options options;
  options.name = options.kind = kind;
  options.corpus_tokens = 0; // earlier replies are not drafted from, because settings would help each other
  auto result = drafter_registry::with_built_in().make(
      {.options = options, .own_model = nullptr, .target_vocab_size = 1U << 20U});
  if (!result) throw std::runtime_error(result.error().message());
  return *std::move(result);
}

/// A drafter with its session of one text.
class seat {
 public:
  explicit seat(drafter& from) : drafter_(&from), session_(from.open(request_id{1})) {}

  draft propose(const text& of, std::uint32_t at, std::uint32_t length) {
    static const sampling::pipeline greedy(sampling_params{}, {});
    draft_task task{};
    task.request = request_id{1};
    task.tokens = std::span(of.tokens).first(at);
    task.sampling = &greedy;
    task.prompt_length = of.prompt_length;
    task.draft_length = length;
    task.max_nodes = task.max_rows = 2 * length;
    task.max_probe_depth = length;
    task.session = session_.get();
    no_ops ops;
    drafter_->propose(ops, nullptr, {&task, 1});
    return std::move(task.result);
  }

 private:
  drafter* drafter_;
  std::unique_ptr<drafter_session> session_;
};

/// The number of draft tokens of `tree` that equal `of` from position `at` on. The last token of a round is
/// the target's.
std::uint32_t num_right(const token_tree& tree, const text& of, std::uint32_t at) {
  std::uint32_t right = 0;
  for (std::int32_t node = token_tree::root; at + right + 1 < of.tokens.size(); ++right) {
    const auto next = tree.child(node, of.tokens[at + right]);
    if (!next) break;
    node = *next;
  }
  return right;
}

/// Nanoseconds of one reply. `round(at, left)` drafts at most `left` tokens after position `at`, and returns
/// the tree that is verified.
template <class Round>
double replay(const text& of, const curve& cost, const Round& round) {
  double taken = 0;
  for (auto at = of.prompt_length + 1; at < of.tokens.size();) {
    const auto left = static_cast<std::uint32_t>(of.tokens.size() - at - 1);
    const double before = processor_time();
    const token_tree tree = left > 0 ? round(at, left) : token_tree{};
    taken += processor_time() - before + cost(1 + tree.size());
    at += num_right(tree, of, at) + 1;
  }
  return taken;
}

double replay_fixed(const text& of, const curve& cost, const std::string& kind, std::uint32_t length) {
  if (length == 0) return replay(of, cost, [](auto, auto) { return token_tree{}; });
  const auto from = made(kind);
  seat one(*from);
  return replay(of, cost, [&](std::uint32_t at, std::uint32_t left) {
    return one.propose(of, at, std::min(length, left)).tree;
  });
}

const std::vector<std::string> candidates{"ngram", "suffix"};

draft_controller begun(const curve& cost) {
  std::vector<acceptance_table::prior> priors;
  for (const auto& kind : candidates) priors.push_back(made(kind)->traits().first_acceptance);
  draft_controller controller(priors, static_cast<std::uint32_t>(priors.size()));
  controller.calibrate(cost.points());
  return controller;
}

double replay_auto(const text& of, const curve& cost, draft_controller& controller) {
  constexpr std::uint32_t most_levels = 16; // config::model_options::auto_draft_length
  std::vector<std::unique_ptr<drafter>> drafters;
  std::vector<seat> seats;
  for (const auto& kind : candidates) seats.emplace_back(*drafters.emplace_back(made(kind)));
  draft_history history;
  return replay(of, cost, [&](std::uint32_t at, std::uint32_t left) {
    controller.learn(history, std::span(of.tokens).first(at));
    std::vector<draft_controller::request_choice> one(1);
    one[0].history = &history;
    one[0].proposals.resize(seats.size());
    for (std::uint32_t c = 0; c < seats.size(); ++c) {
      if (!controller.begin_call(history, c, 1)) continue;
      const double before = processor_time();
      one[0].proposals[c] = seats[c].propose(of, at, std::min(most_levels, left));
      controller.observe_proposing(c, 1, processor_time() - before);
    }
    controller.choose(one, {});
    const auto rows = 1 + one[0].chosen.tree.size();
    controller.observe(rows, cost(rows));
    return std::move(one[0].chosen.tree);
  });
}

struct setting {
  std::string kind;
  std::uint32_t length;
};
const std::vector<setting> settings{{"", 0}, {"ngram", 2}, {"ngram", 5}, {"ngram", 8}, {"suffix", 5}};

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// The setting that is fastest on the texts whose number has the other parity. So it is chosen on other
/// prompts.
std::size_t best_elsewhere(const std::vector<std::vector<double>>& taken, std::size_t text_number) {
  std::vector<double> sums(taken.size());
  for (std::size_t s = 0; s < taken.size(); ++s)
    for (std::size_t i = 0; i < taken[s].size(); ++i)
      if (i % 2 != text_number % 2) sums[s] += std::log(taken[s][i] / taken[0][i]);
  return static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin());
}

void replay_group(const group_key& key, const std::vector<text>& texts, const curve& cost, bool cold,
                  draft_controller& warm) {
  std::vector<std::vector<double>> taken(settings.size());
  std::vector<double> automatic, to_best, to_plain;
  for (const auto& of : texts) {
    for (std::size_t s = 0; s < settings.size(); ++s)
      taken[s].push_back(replay_fixed(of, cost, settings[s].kind, settings[s].length));
    draft_controller fresh = begun(cost);
    automatic.push_back(replay_auto(of, cost, cold ? fresh : warm));
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    to_best.push_back(taken[best_elsewhere(taken, i)][i] / automatic[i]);
    to_plain.push_back(taken[0][i] / automatic[i]);
  }
  const auto& [kind, length] = settings[best_elsewhere(taken, 0)];
  std::printf("%-14s %11d %5zu  %-7s %2u  %6.3f %6.3f  %6.3f %6.3f\n", key.first.c_str(), key.second,
              texts.size(), length == 0 ? "plain" : kind.c_str(), length, quantile(to_best, 0.5),
              quantile(to_best, 0.1), quantile(to_plain, 0.5), quantile(to_plain, 0.1));
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app("Replays recorded texts with drafter auto and with fixed settings, in virtual time");
  std::string texts, costs;
  std::size_t most_tokens = 200;
  bool cold = false;
  app.add_option("texts", texts, "recording of record.py")->required()->check(CLI::ExistingFile);
  app.add_option("costs", costs, "output of `paceline bench cost --json`")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--tokens", most_tokens, "of a reply, at most");
  app.add_flag("--cold", cold, "each reply is the first one of its engine");
  CLI11_PARSE(app, argc, argv);
  try {
    std::ifstream file(costs);
    const curve cost(json::parse(std::string{std::istreambuf_iterator<char>(file), {}}));
    draft_controller warm = begun(cost);
    std::printf(
        "workload       temperature texts  best fixed  auto/best: median, tenth  auto/plain: the same\n");
    for (const auto& [key, group] : read_texts(texts, most_tokens))
      replay_group(key, group, cost, cold, warm);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
