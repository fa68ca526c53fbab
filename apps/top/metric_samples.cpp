#include "apps/top/metric_samples.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace paceline::apps {

namespace {

/// Reads `name="value"` with its escapes from the beginning of `text`, and removes it.
std::optional<std::pair<std::string, std::string>> take_label(std::string_view& text) {
  const auto equals = text.find("=\"");
  if (equals == std::string_view::npos) return std::nullopt;
  std::pair<std::string, std::string> label(text.substr(0, equals), "");
  std::size_t at = equals + 2;
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\' && ++at == text.size()) return std::nullopt;
    label.second += text[at] == 'n' && text[at - 1] == '\\' ? '\n' : text[at];
  }
  if (at == text.size()) return std::nullopt;
  text.remove_prefix(at + 1);
  if (text.starts_with(',')) text.remove_prefix(1);
  return label;
}

std::optional<metric_sample> sample_of(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  metric_sample out;
  const auto name_end = line.find_first_of("{ ");
  if (name_end == std::string_view::npos) return std::nullopt;
  out.name = line.substr(0, name_end);
  line.remove_prefix(name_end);
  if (line.starts_with('{')) {
    line.remove_prefix(1);
    while (!line.empty() && line.front() != '}') {
      auto label = take_label(line);
      if (!label) return std::nullopt;
      out.labels.insert(*std::move(label));
    }
    if (line.empty()) return std::nullopt;
    line.remove_prefix(1);
  }
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const auto [end, failed] = std::from_chars(line.data(), line.data() + line.size(), out.value);
  return failed == std::errc{} ? std::optional(std::move(out)) : std::nullopt;
}

bool has(const metric_sample& sample, std::string_view name, const label_filter& labels) {
  return sample.name == name && std::ranges::all_of(labels, [&](const auto& wanted) {
           return sample.label(wanted.first) == wanted.second;
         });
}

} // namespace

std::string_view metric_sample::label(std::string_view which) const {
  const auto found = labels.find(which);
  return found == labels.end() ? std::string_view() : found->second;
}

metric_samples metric_samples::parse(std::string_view text) {
  metric_samples out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    if (auto sample = sample_of(text.substr(0, end))) out.samples_.push_back(*std::move(sample));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

double metric_samples::sum(std::string_view name, const label_filter& labels) const {
  double total = 0;
  for (const auto& sample : samples_)
    if (has(sample, name, labels)) total += sample.value;
  return total;
}

std::vector<std::string> metric_samples::values(std::string_view name, std::string_view label,
                                                const label_filter& labels) const {
  std::vector<std::string> out;
  for (const auto& sample : samples_)
    if (has(sample, name, labels) && std::ranges::find(out, sample.label(label)) == out.end())
      out.emplace_back(sample.label(label));
  return out;
}

} // namespace paceline::apps
