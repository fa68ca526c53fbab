#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// One sample of Prometheus text.
struct metric_sample {
  std::string name;
  std::map<std::string, std::string, std::less<>> labels;
  double value = 0;

  /// The value of a label; empty if there is none.
  std::string_view label(std::string_view which) const;
};

using label_filter = std::vector<std::pair<std::string_view, std::string_view>>;

/// The samples of one scrape.
class metric_samples {
 public:
  /// Reads Prometheus text (version 0.0.4). Lines that are not samples are skipped.
  static metric_samples parse(std::string_view text);

  /// Sum over the samples of a family that have these labels; 0 if there are none.
  double sum(std::string_view name, const label_filter& labels = {}) const;
  /// The different values of a label in a family, in the order of the text.
  std::vector<std::string> values(std::string_view name, std::string_view label,
                                  const label_filter& labels = {}) const;

 private:
  std::vector<metric_sample> samples_;
};

} // namespace paceline::apps
