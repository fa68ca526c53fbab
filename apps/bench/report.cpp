#include "apps/bench/report.hpp"

#include "apps/build_info.hpp"
#include "protocol/wire/json_text.hpp"
#include "runtime/cpu/kernel_level.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <thread>

namespace paceline::apps::bench {

namespace json = boost::json;

namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

double load_average() {
  std::ifstream file("/proc/loadavg");
  double load = 0;
  file >> load;
  return load;
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

/// Median of a sorted list.
double middle(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/// How many of `count` sorted values can be cut off at each end so that the median lies between the remaining
/// ones with probability 0.95. The number of values below the median is binomial.
std::size_t outside_interval(std::size_t count) {
  // The probability that exactly `cut` values are below the median.
  double probability = std::pow(0.5, static_cast<double>(count));
  double tail = probability;
  std::size_t cut = 0;
  while (tail <= 0.025 && cut < count / 2) {
    ++cut;
    probability *= static_cast<double>(count - cut + 1) / static_cast<double>(cut);
    tail += probability;
  }
  return cut == 0 ? 0 : cut - 1;
}

} // namespace

summary summarise(std::vector<double> values) {
  std::ranges::sort(values);
  summary s{.median = middle(values), .least = values.front(), .most = values.back(), .count = values.size()};
  const std::size_t cut = outside_interval(values.size());
  s.interval_from = values[cut];
  s.interval_to = values[values.size() - 1 - cut];
  for (double& v : values) v = std::abs(v - s.median);
  std::ranges::sort(values);
  s.deviation = middle(values);
  return s;
}

double percentile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

idle_share idle_share_of(double busy_seconds, double launching_seconds, double wall_seconds) {
  return {1 - busy_seconds / wall_seconds, 1 - (busy_seconds - launching_seconds) / wall_seconds};
}

json::object to_json(const idle_share& share) { return {{"from", share.least}, {"to", share.most}}; }

json::object to_json(const summary& s) {
  return {{"median", s.median}, {"min", s.least},  {"max", s.most},
          {"mad", s.deviation}, {"runs", s.count}, {"interval95", {s.interval_from, s.interval_to}}};
}

json::object provenance(const std::string& command_line, std::uint64_t seed) {
  json::object machine{{"processor", processor_name()},
                       {"cores", std::thread::hardware_concurrency()},
                       {"kernel_level", cpu::to_string(cpu::best_kernel_level())},
                       {"load_average", load_average()}};
  return {{"command", command_line},  {"seed", seed},  {"version", build_version()},
          {"commit", build_commit()}, {"time", now()}, {"machine", std::move(machine)}};
}

table::table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }

void table::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

void table::print() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i)
      std::printf("%s%*s", i == 0 ? "" : "  ", (i == 0 ? -1 : 1) * static_cast<int>(widths[i]),
                  row[i].c_str());
    std::printf("\n");
  }
}

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

void print_json(const std::string& bench, const std::string& command_line, std::uint64_t seed,
                json::object results) {
  json::object out{{"bench", bench}};
  for (auto& [key, value] : results) out[key] = std::move(value);
  out["provenance"] = provenance(command_line, seed);
  std::cout << wire::json_text(out) << '\n';
}

} // namespace paceline::apps::bench
