#include "apps/bench/device_roof.hpp"
#include "apps/bench/head_cost.hpp"
#include "apps/bench/lone_model.hpp"
#include "apps/bench/options.hpp"
#include "apps/bench/report.hpp"
#include "apps/bench/timed_ops.hpp"
#include "apps/exit_codes.hpp"

#include <algorithm>
#include <cstdio>

namespace paceline::apps::bench {

namespace json = boost::json;

namespace {

struct measured {
  std::vector<std::vector<double>>
      seconds; ///< [index of rows][repeat]; by the device's own clock if it has one
  std::vector<std::vector<double>> host_seconds;               ///< the same by the host's clock
  std::vector<std::map<std::string, timed_ops::share>> shares; ///< empty if ops return before they are done
  // Values of one pass; 0 if ops return before they are done. With more rows, more experts of a mixture are
  // read.
  std::vector<std::uint64_t> multiply_adds, weight_bytes;
  std::vector<double> draft_seconds; ///< [repeat], by the same clock as `seconds`
  bool is_draft_of_one_piece = false;
};

/// One pass of size number `i`, counted if `repeat` > 0.
void measure_pass(const cost_options& options, const lone_model& m, std::size_t i, std::uint32_t repeat,
                  device::ops& ops, measured& out) {
  const std::uint32_t begin = options.context, end = begin + options.rows[i];
  if (repeat == 0 && m.is_on_gpu())
    m.pass(ops, begin, end), m.pass(ops, begin, end); // first captured as a graph, then run as one
  const auto [seconds, host_seconds] = m.timed([&] { m.pass(ops, begin, end); });
  if (repeat == 0) return; // warm-up
  out.seconds[i].push_back(seconds);
  out.host_seconds[i].push_back(host_seconds);
  if (m.is_on_gpu()) return;
  timed_ops clocked(ops);
  m.pass(clocked, begin, end);
  for (const auto& [name, share] : clocked.shares()) {
    auto& sum = out.shares[i][name];
    sum.time += share.time / options.repeats;
    sum.weight_bytes = share.weight_bytes;
    sum.multiply_adds = share.multiply_adds;
  }
}

void measure_draft(const cost_options& options, const lone_model& m, std::uint32_t repeat, device::ops& ops,
                   measured& out) {
  const double seconds =
      m.timed([&] { out.is_draft_of_one_piece = m.draft(ops, options.context, options.draft); }).device;
  if (repeat > 0) out.draft_seconds.push_back(seconds);
}

/// Measures every size and head once per repeat, in turn. The device's limits are measured in between.
expected<measured> measure(const cost_options& options, const lone_model& m, head_costs& heads,
                           device_roof& roof) {
  measured out;
  out.seconds.resize(options.rows.size());
  out.host_seconds.resize(options.rows.size());
  out.shares.resize(options.rows.size());
  out.multiply_adds.resize(options.rows.size());
  out.weight_bytes.resize(options.rows.size());
  auto went = m.run([&](device::ops& ops) { m.pass(ops, 0, options.context); });
  for (std::uint32_t repeat = 0; went && repeat <= options.repeats; ++repeat) {
    went = roof.sample();
    for (std::size_t i = 0; went && i < options.rows.size(); ++i)
      went = m.run([&](device::ops& ops) { measure_pass(options, m, i, repeat, ops, out); });
    if (went && options.draft > 0)
      went = m.run([&](device::ops& ops) { measure_draft(options, m, repeat, ops, out); });
    if (went) went = heads.measure(m, options.context, repeat);
    if (!options.json)
      std::fprintf(stderr, "\rround %u of %u%s", repeat, options.repeats,
                   repeat == options.repeats ? "\n" : "");
  }
  if (!went) return std::move(went).error();
  for (std::size_t i = 0; i < options.rows.size(); ++i)
    for (const auto& [name, share] : out.shares[i]) {
      out.multiply_adds[i] += share.multiply_adds;
      out.weight_bytes[i] += share.weight_bytes;
    }
  return out;
}

/// Weights that pass number `i` reads.
double weight_bytes_of(const model::model_info& info, const measured& m, std::size_t i) {
  return static_cast<double>(m.weight_bytes[i] != 0 ? m.weight_bytes[i] : info.bytes_per_token);
}

/// Lower bound for the time of pass number `i` on a device with these limits.
double roof_seconds(const model::model_info& info, const cost_options& options, const measured& m,
                    std::size_t i, const device_roof& limits) {
  const double bytes =
      weight_bytes_of(info, m, i) + static_cast<double>(info.kv_bytes_per_token) * options.context;
  const double reading = bytes / limits.read_bytes_per_second();
  if (m.multiply_adds[i] == 0) return reading;
  return std::max(reading, static_cast<double>(m.multiply_adds[i]) / limits.multiply_adds_per_second());
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

json::object row_json(const cost_options& options, const measured& m, std::size_t i, const lone_model& model,
                      const device_roof& limits) {
  const summary s = summarise(m.seconds[i]);
  const double one = summarise(m.seconds[0]).median;
  const double roof = roof_seconds(model.info(), options, m, i, limits);
  const double roof_of_one = roof_seconds(model.info(), options, m, 0, limits);
  return {{"rows", options.rows[i]},
          {"seconds", to_json(s)},
          {"host_seconds", to_json(summarise(m.host_seconds[i]))},
          {"cost", s.median / one},
          {"roof_cost", roof / roof_of_one},
          {"share_of_roof", roof / s.median},
          {"weight_bytes", weight_bytes_of(model.info(), m, i)},
          {"gb_per_second", weight_bytes_of(model.info(), m, i) / s.median / 1e9},
          {"ops", shares_json(m.shares[i])}};
}

void print_table(const json::array& rows, bool by_op) {
  table summary_table({"rows T", "ms", "mad", "V(T)/V(1)", "of the roof", "within 1.25x", "weights GB/s"});
  for (const auto& row : rows) {
    const double value = row.at("cost").as_double(), roof = row.at("roof_cost").as_double();
    const auto& s = row.at("seconds").as_object();
    summary_table.add({std::to_string(row.at("rows").to_number<int>()),
                       fixed(s.at("median").as_double() * 1e3, 2), fixed(s.at("mad").as_double() * 1e3, 2),
                       fixed(value, 2), fixed(roof, 2), value <= 1.25 * roof ? "pass" : "short",
                       fixed(row.at("gb_per_second").as_double(), 1)});
  }
  summary_table.print();
  if (!by_op) return;
  for (const auto& row : rows) {
    table ops({"T = " + std::to_string(row.at("rows").to_number<int>()), "ms", "GB/s", "GMAC/s"});
    for (const auto& o : row.at("ops").as_array()) {
      const auto& op = o.as_object();
      const auto rate = [&](const char* key) {
        return op.contains(key) ? fixed(op.at(key).as_double(), 1) : "";
      };
      ops.add({std::string(op.at("op").as_string()), fixed(op.at("ms").as_double(), 3), rate("gb_per_second"),
               rate("gmac_per_second")});
    }
    std::printf("\n");
    ops.print();
  }
}

json::object draft_json(const cost_options& options, const measured& m) {
  const summary s = summarise(m.draft_seconds);
  return {{"tokens", options.draft},
          {"of_one_piece", m.is_draft_of_one_piece},
          {"seconds", to_json(s)},
          {"ms_per_token", s.median / options.draft * 1e3}};
}

void print(const cost_options& options, const measured& m, const json::array& rows, const lone_model& model,
           const device_roof& roof) {
  print_table(rows, options.by_op);
  if (!m.draft_seconds.empty())
    std::printf("a draft of %u tokens %s: %.3f ms a token\n", options.draft,
                m.is_draft_of_one_piece ? "in one launch" : "pass by pass",
                summarise(m.draft_seconds).median / options.draft * 1e3);
  std::printf("the device: reads %.1f GB/s", roof.read_bytes_per_second() / 1e9);
  if (roof.multiply_adds_per_second() > 0)
    std::printf(", multiplies %.0f GMAC/s", roof.multiply_adds_per_second() / 1e9);
  std::printf("; a token reads %.1f MB of weights\n",
              static_cast<double>(model.info().bytes_per_token) / 1e6);
}

} // namespace

int cost(const cost_options& options) {
  const std::uint32_t threads = options.choice.num_threads();
  const std::uint32_t most = std::max(*std::ranges::max_element(options.rows), options.draft);
  const auto model = lone_model::open(options.choice, threads, options.context + most);
  if (!model) return fail(model.error());
  const auto roof = roof_of(options.choice.device, threads);
  if (!roof) return fail(roof.error());
  auto costs =
      head_costs::open(*model, options.draft_heads,
                       {.kv_type = options.choice.kv_dtype, .overrides = {}, .format = options.draft_weights},
                       options.context);
  if (!costs) return fail(costs.error());
  const auto m = measure(options, *model, *costs, **roof);
  if (!m) return fail(m.error());
  json::array heads = costs->to_json(*model, options.acceptance_length);
  json::array rows;
  for (std::size_t i = 0; i < options.rows.size(); ++i)
    rows.push_back(row_json(options, *m, i, *model, **roof));
  if (!options.json) {
    print(options, *m, rows, *model, **roof);
    print_heads(heads);
    return exit_success;
  }
  json::object out{{"model", options.choice.model},
                   {"device", options.choice.device},
                   {"threads", threads},
                   {"context", options.context},
                   {"weight_bytes_per_token", model->info().bytes_per_token},
                   {"read_gb_per_second", (*roof)->read_bytes_per_second() / 1e9},
                   {"gmac_per_second", (*roof)->multiply_adds_per_second() / 1e9},
                   {"passes", std::move(rows)}};
  if (options.draft > 0) out["draft"] = draft_json(options, *m);
  if (!heads.empty()) out["heads"] = std::move(heads);
  print_json("cost", options.command_line, options.seed, std::move(out));
  return exit_success;
}

} // namespace paceline::apps::bench
