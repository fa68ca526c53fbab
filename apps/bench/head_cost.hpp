#pragma once

#include "apps/bench/lone_head.hpp"

#include <boost/json/array.hpp>

#include <memory>
#include <vector>

namespace paceline::apps::bench {

/// Measures the times of trained draft heads: a whole draft, a draft of one level, and two passes of the
/// target that store the hidden states for the head (one over a single row, one that verifies a draft). A
/// plain pass of the target over one row is timed for comparison.
class head_costs {
 public:
  /// Loads the heads in `paths`, and makes one entry for each draft shape that was published for a head's
  /// kind. `context`: length of a made-up text, in tokens. `target` must outlive the result. Returns the
  /// first error.
  static expected<head_costs> open(const lone_model& target, const std::vector<std::string>& paths,
                                   const model::head_load_options& load, std::uint32_t context);

  /// Times each part once for each head. The first call must have `repeat` 0: the heads then read the made-up
  /// text, and the times are not kept. `context` must be that of `open`.
  expected<void> measure(const lone_model& target, std::uint32_t context, std::uint32_t repeat);

  /// Medians of the times in seconds, with their spread, for each head and draft shape. The speed-up is
  /// computed for the acceptance length `length`, in tokens. If `length` is 0, the published length is used;
  /// if none was published, there is no speed-up.
  /// Requires a call of `measure` with `repeat` above 0.
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
