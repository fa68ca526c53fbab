#pragma once

#include "apps/bench/lone_head.hpp"

#include <boost/json/array.hpp>

#include <memory>
#include <vector>

namespace paceline::apps::bench {

/// What draft heads cost beside a plain pass of their target: a draft, a level of it, the capture of the
/// states that they read, and the verification of their drafts.
class head_costs {
 public:
  /// Loads the heads in `paths`. Error: the first one of a head.
  static expected<head_costs> open(const lone_model& target, const std::vector<std::string>& paths,
                                   const model::head_load_options& load, std::uint32_t context);

  /// Times everything once, in turn; not counted if `repeat` is 0.
  expected<void> measure(const lone_model& target, std::uint32_t context, std::uint32_t repeat);

  /// For each head and shape its figures: medians with their spread. With `length` above 0 the speed-up is
  /// that at this acceptance length, instead of the published ones.
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
