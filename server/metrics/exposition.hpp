#pragma once

#include "server/metrics/histogram.hpp"

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::server {

using label_list = std::vector<std::pair<std::string_view, std::string_view>>;

/// Writes Prometheus text (version 0.0.4). `counter`, `gauge` or `histogram_family` opens a family, and the
/// samples of the family must follow before the next family is opened.
class exposition {
 public:
  void counter(std::string_view name, std::string_view help) { family(name, help, "counter"); }
  void gauge(std::string_view name, std::string_view help) { family(name, help, "gauge"); }

  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  void sample(const label_list& labels, Number value) {
    if constexpr (std::integral<Number>)
      append(name_, labels, std::to_string(value));
    else
      append(name_, labels, print(value));
  }
  /// Opens a histogram family; `add_histogram` writes the samples of one label set.
  void histogram_family(std::string_view name, std::string_view help) { family(name, help, "histogram"); }
  void add_histogram(const label_list& labels, const histogram& values);

  std::string take() { return std::move(text_); }

 private:
  void family(std::string_view name, std::string_view help, std::string_view type);
  void append(std::string_view name, const label_list& labels, std::string_view value);
  static std::string print(double value);

  std::string name_;
  std::string text_;
};

} // namespace paceline::server
