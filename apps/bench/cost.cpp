#include "apps/bench/machine_limits.hpp"
#include "apps/bench/options.hpp"
#include "apps/bench/report.hpp"
#include "apps/bench/timed_ops.hpp"
#include "apps/exit_codes.hpp"

#include "runtime/cpu/cpu_device.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/model/loader/model_source.hpp"
#include "runtime/model/transformer_loader.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>

namespace paceline::apps::bench {

namespace json = boost::json;

namespace {

using std::chrono::steady_clock;

constexpr std::uint32_t block_size = 32;

/// A model on a device of its own, and one sequence of it.
struct bench_model {
  std::unique_ptr<cpu::cpu_device> device;
  std::unique_ptr<device::stream> stream;
  std::unique_ptr<model::transformer> runs;
  std::unique_ptr<model::kv_storage> kv;
  std::vector<block_id> blocks;
};

expected<bench_model> open(const cost_options& options, std::uint32_t threads) {
  auto source = model::open_model(options.choice.model);
  if (!source) return std::move(source).error();
  cpu::cpu_device_options device_options;
  device_options.partitions.resize(1);
  device_options.partitions[0].num_threads = threads;
  auto device = cpu::cpu_device::make(device_options);
  if (!device) return std::move(device).error();
  bench_model made;
  made.device = *std::move(device);
  made.stream = made.device->make_stream("bench", 0);
  model::transformer_load_options load;
  load.kv_type = options.choice.kv_dtype;
  load.num_threads = threads;
  auto runs = model::load_transformer(source->config, source->weights, *made.device, *made.device, load);
  if (!runs) return std::move(runs).error();
  made.runs = *std::move(runs);
  const std::uint32_t most = *std::ranges::max_element(options.rows);
  const std::uint32_t num_blocks = (options.context + most) / block_size + 1;
  made.kv = made.runs->make_kv_storage(num_blocks, block_size);
  for (std::uint32_t b = 0; b < num_blocks; ++b) made.blocks.emplace_back(b);
  return made;
}

constexpr std::uint32_t most_verified_rows = 64; ///< a larger pass reads a prompt, and wants its last row's logits only

/// Rows at positions [begin, end).
void pass(bench_model& m, device::ops& ops, std::uint32_t begin, std::uint32_t end) {
  std::vector<device::batch_entry> rows;
  for (std::uint32_t p = begin; p < end; ++p) {
    const auto id = static_cast<std::int32_t>((p * 7919U + 13U) % std::min(m.runs->info().vocab_size, 30000U));
    rows.push_back({token_id{id}, token_position{p}, kv_slot{p}, 0, 0, 0});
  }
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t r = end - begin <= most_verified_rows ? 0 : end - begin - 1; r < end - begin; ++r) wanted.push_back(r);
  std::vector<float> logits(wanted.size() * std::size_t{m.runs->info().vocab_size});
  const device::sequence_kv sequence{m.blocks};
  m.runs->forward(ops, {rows, {&sequence, 1}, {}}, *m.kv, {wanted, logits, {}});
}

struct measured {
  std::vector<std::vector<double>> seconds; ///< [index of rows][repeat]
  std::vector<std::map<std::string, timed_ops::share>> shares;
  std::vector<std::uint64_t> multiply_adds; ///< of a pass
};

error failure_of(const device::fence& done) { return *done.failure(); }

/// Times every size once a repeat, in turn, with the machine's limits between them.
expected<measured> measure(const cost_options& options, bench_model& m, machine_limits& limits) {
  measured out;
  out.seconds.resize(options.rows.size());
  out.shares.resize(options.rows.size());
  out.multiply_adds.resize(options.rows.size());
  auto run = [&](const device::program& work) -> expected<void> {
    const auto done = m.stream->submit("bench", {}, work);
    done.wait();
    if (done.failure()) return failure_of(done);
    return {};
  };
  auto warm = run([&](device::ops& ops) { pass(m, ops, 0, options.context); });
  for (std::uint32_t repeat = 0; warm && repeat <= options.repeats; ++repeat) {
    limits.sample();
    for (std::size_t i = 0; warm && i < options.rows.size(); ++i)
      warm = run([&](device::ops& ops) {
        const std::uint32_t begin = options.context, end = begin + options.rows[i];
        const auto start = steady_clock::now();
        pass(m, ops, begin, end);
        const double seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
        if (repeat == 0) return; // warms up
        out.seconds[i].push_back(seconds);
        timed_ops clocked(ops);
        pass(m, clocked, begin, end);
        for (const auto& [name, share] : clocked.shares()) {
          auto& sum = out.shares[i][name];
          sum.time += share.time / options.repeats;
          sum.weight_bytes = share.weight_bytes;
          sum.multiply_adds = share.multiply_adds;
        }
      });
    if (!options.json) std::fprintf(stderr, "\rround %u of %u%s", repeat, options.repeats, repeat == options.repeats ? "\n" : "");
  }

  if (!warm) return std::move(warm).error();
  for (std::size_t i = 0; i < options.rows.size(); ++i)
    for (const auto& [name, share] : out.shares[i]) out.multiply_adds[i] += share.multiply_adds;
  return out;
}

/// Least time of a pass of `rows` rows on a machine with these limits.
double roof_seconds(const model::model_info& info, const cost_options& options, std::uint64_t multiply_adds,
                    const machine_limits& limits) {
  const double bytes = static_cast<double>(info.bytes_per_token) +
                       static_cast<double>(info.kv_bytes_per_token) * options.context;
  return std::max(bytes / limits.read_bytes_per_second(),
                  static_cast<double>(multiply_adds) / limits.multiply_adds_per_second());
}

json::array shares_json(const std::map<std::string, timed_ops::share>& shares) {
  json::array out;
  for (const auto& [name, s] : shares) {
    const double seconds = std::chrono::duration<double>(s.time).count();
    json::object o{{"op", name}, {"ms", seconds * 1e3}};
    if (s.weight_bytes > 0) {
      o["gb_per_second"] = static_cast<double>(s.weight_bytes) / seconds / 1e9;
      o["gmac_per_second"] = static_cast<double>(s.multiply_adds) / seconds / 1e9;
    }
    out.push_back(std::move(o));
  }
  return out;
}

json::object row_json(const cost_options& options, const measured& m, std::size_t i, const bench_model& model,
                      const machine_limits& limits) {
  const summary s = summarise(m.seconds[i]);
  const double one = summarise(m.seconds[0]).median;
  const double roof = roof_seconds(model.runs->info(), options, m.multiply_adds[i], limits);
  const double roof_of_one = roof_seconds(model.runs->info(), options, m.multiply_adds[0], limits);
  return {{"rows", options.rows[i]},
          {"seconds", to_json(s)},
          {"cost", s.median / one},
          {"roof_cost", roof / roof_of_one},
          {"share_of_roof", roof / s.median},
          {"gb_per_second", static_cast<double>(model.runs->info().bytes_per_token) / s.median / 1e9},
          {"ops", shares_json(m.shares[i])}};
}

void print_table(const json::array& rows, bool by_op) {
  table summary_table({"rows T", "ms", "mad", "V(T)/V(1)", "of the roof", "within 1.25x", "weights GB/s"});
  for (const auto& row : rows) {
    const double value = row.at("cost").as_double(), roof = row.at("roof_cost").as_double();
    const auto& s = row.at("seconds").as_object();
    summary_table.add({std::to_string(row.at("rows").to_number<int>()), fixed(s.at("median").as_double() * 1e3, 2),
                       fixed(s.at("mad").as_double() * 1e3, 2), fixed(value, 2), fixed(roof, 2),
                       value <= 1.25 * roof ? "pass" : "short", fixed(row.at("gb_per_second").as_double(), 1)});
  }
  summary_table.print();
  if (!by_op) return;
  for (const auto& row : rows) {
    table ops({"T = " + std::to_string(row.at("rows").to_number<int>()), "ms", "GB/s", "GMAC/s"});
    for (const auto& o : row.at("ops").as_array()) {
      const auto& op = o.as_object();
      const auto rate = [&](const char* key) { return op.contains(key) ? fixed(op.at(key).as_double(), 1) : ""; };
      ops.add({std::string(op.at("op").as_string()), fixed(op.at("ms").as_double(), 3), rate("gb_per_second"),
               rate("gmac_per_second")});
    }
    std::printf("\n");
    ops.print();
  }
}

} // namespace

int cost(const cost_options& options) {
  const std::uint32_t threads =
      options.choice.threads != 0 ? options.choice.threads : std::max(std::thread::hardware_concurrency(), 1U);
  auto model = open(options, threads);
  if (!model) return fail(model.error());
  cpu::thread_team::options team_options;
  team_options.num_threads = threads;
  cpu::thread_team team(team_options);
  machine_limits limits(team);
  const auto m = measure(options, *model, limits);
  if (!m) return fail(m.error());
  json::array rows;
  for (std::size_t i = 0; i < options.rows.size(); ++i) rows.push_back(row_json(options, *m, i, *model, limits));
  if (options.json) {
    print_json("cost", options.command_line, options.seed,
               {{"model", options.choice.model}, {"threads", threads}, {"context", options.context},
                {"weight_bytes_per_token", model->runs->info().bytes_per_token},
                {"read_gb_per_second", limits.read_bytes_per_second() / 1e9},
                {"gmac_per_second", limits.multiply_adds_per_second() / 1e9}, {"passes", std::move(rows)}});
  } else {
    print_table(rows, options.by_op);
    std::printf("the machine: reads %.1f GB/s, multiplies %.0f GMAC/s; a token reads %.1f MB of weights\n",
                limits.read_bytes_per_second() / 1e9, limits.multiply_adds_per_second() / 1e9,
                static_cast<double>(model->runs->info().bytes_per_token) / 1e6);
  }
  return exit_success;
}

} // namespace paceline::apps::bench
