#pragma once

#include "runtime/speculation/control/pass_cost.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace paceline::speculation {

/// What one request's passes have shown of probes. Dies with the request.
class probe_history {
 public:
  /// How long the probes of `candidate` have been in every pass: 0 not at all, 1 for a few rounds, 2 so long
  /// that its drafts are as good as they get. Known before any token of the round: serves as a signal
  /// (acceptance_model.hpp).
  std::uint8_t warmth(std::uint32_t candidate) const noexcept;

 private:
  friend class probe_choice;
  struct carried {
    std::uint32_t num_rounds = 0; ///< of late
    std::uint32_t num_samples = 0;
    double gain = 0;  ///< draft tokens a round that came true, once warm
    double nodes = 0; ///< draft tokens a round
  };
  std::vector<carried> candidates_;
  std::uint32_t looking_at_ = 0;
  std::uint32_t look_rounds_ = 0; ///< to come, of a look
  double look_budget_ = 0;        ///< passes over one row that it may still cost
  std::uint32_t pause_rounds_ = 0;
};

/// Whether an in-pass drafter's probes are worth their rows. They cost rows in every pass (the window of
/// lookahead decoding) and bring nothing in it: they make the drafts of later rounds. So it is not one round
/// that decides, but the mean of those that carried them against what all else promises. What is not carried
/// cannot be judged: 1 % of the time goes into carrying probes for some rounds to see.
///
/// Not thread-safe: one a target stream.
class probe_choice {
 public:
  static constexpr std::uint32_t warm_rounds = 8;
  static constexpr std::uint32_t look_rounds = 24;
  /// What the first look may cost, in passes over one row; it may come at once.
  static constexpr double first_look_passes = 26;

  explicit probe_choice(std::uint32_t num_candidates) : known_(num_candidates), looked_at_(num_candidates) {}

  struct offer {
    std::uint32_t candidate = 0;
    std::uint32_t num_probes = 0;
  };
  /// Whose probes shall be in the request's next pass. `without`: tokens per pass over one row that it can
  /// have without any, in a batch of `num_lanes` requests that all do the same.
  std::optional<offer> choose(probe_history& request, std::span<const offer> offers, std::uint32_t num_lanes,
                              double without, const pass_cost& cost);
  /// Tokens per pass over one row with these probes, by what is known. 0 if nothing is.
  double promise(const probe_history& request, offer one, std::uint32_t num_lanes,
                 const pass_cost& cost) const;
  /// The round carries the probes of `candidate` (or none) beside `nodes` draft tokens of which `gain` are
  /// expected to be kept.
  void settle(probe_history& request, std::optional<std::uint32_t> candidate, double gain,
              std::uint32_t nodes);
  /// A pass took so long.
  void observe(double nanoseconds) noexcept { since_look_ += nanoseconds; }

 private:
  struct mean {
    std::uint32_t num_samples = 0;
    double gain = 0, nodes = 0;
  };
  bool goes_on_looking(probe_history& request, offer one, std::uint32_t num_lanes, double without,
                       const pass_cost& cost) const;
  double look_budget(std::uint32_t candidate, const pass_cost& cost) const;

  std::vector<mean> known_; ///< [candidate], of all requests
  std::vector<bool> looked_at_;
  double since_look_ = 0;         ///< nanoseconds of passes
  std::uint64_t num_carried_ = 0; ///< rounds of requests
};

} // namespace paceline::speculation
