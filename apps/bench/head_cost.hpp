#pragma once

#include "apps/bench/lone_head.hpp"

#include <boost/json/array.hpp>

#include <memory>
#include <vector>

namespace paceline::apps::bench {

/// Measures the times of trained draft heads: of a whole draft, of a draft of one level, of a pass of the
/// target that stores the hidden states that the head reads, and of a pass that verifies a draft. A plain
/// pass of the target (one row) is timed for comparison.
class head_costs {
 public:
  /// Loads the heads in `paths`, and makes one entry for each draft shape that was published for a head's
  /// kind. `context`: length of a made-up text, in tokens. `target` must outlive the result. Returns the
  /// first error.
  static expected<head_costs> open(const lone_model& target, const std::vector<std::string>& paths,
                                   const model::head_load_options& load, std::uint32_t context);

  /// Times each part once for each head. The first call must have `repeat` 0: in it the heads read the
  /// made-up text, and its times are not kept. `context` is that of `open`.
  expected<void> measure(const lone_model& target, std::uint32_t context, std::uint32_t repeat);

  /// Medians of the times in seconds, with their spread, for each head and draft shape. The speed-up is
  /// computed for acceptance length `length`, in tokens; 0: the published one. If that is unknown too, there
  /// is no speed-up. Requires a call of `measure` with `repeat` above 0.
  boost::json::array to_json(const lone_model& target, double length) const;

 private:
  struct measured {
    std::unique_ptr<lone_head> of;
    std::vector<double> plain, capturing, verifying, one_level,
        all_levels; ///< seconds, for each `repeat` from 1 on
  };
  std::vector<measured> all_;
};

/// Prints the result of `to_json` as a table on standard output.
void print_heads(const boost::json::array& heads);

} // namespace paceline::apps::bench
