#pragma once

#include "apps/bench/lone_head.hpp"

#include <boost/json/array.hpp>

#include <memory>
#include <vector>

namespace paceline::apps::bench {

/// Times of trained draft heads, for comparison with a plain pass of their target: a whole draft, a draft of
/// one level, a pass that stores the hidden states that the head reads, and a pass that verifies a draft.
class head_costs {
 public:
  /// Loads the heads in `paths`. Returns the error of the first head that fails.
  static expected<head_costs> open(const lone_model& target, const std::vector<std::string>& paths,
                                   const model::head_load_options& load, std::uint32_t context);

  /// Times each part of each head once. `repeat` 0 is the warm-up, which must come first: the heads read the
  /// text, and the times are dropped.
  expected<void> measure(const lone_model& target, std::uint32_t context, std::uint32_t repeat);

  /// The figures of each head and draft shape: medians with their spread. The speed-up is computed for
  /// acceptance length `length`, or for the published one if `length` is 0.
  boost::json::array to_json(const lone_model& target, double length) const;

 private:
  struct measured {
    std::unique_ptr<lone_head> of;
    std::vector<double> plain, capturing, verifying, one_level, all_levels; ///< seconds, [repeat]
  };
  std::vector<measured> all_;
};

void print_heads(const boost::json::array& heads);

} // namespace paceline::apps::bench
