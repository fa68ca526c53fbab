#pragma once

#include "runtime/device/op_chain.hpp"
#include "runtime/speculation/drafters/draft_lane.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// Drafts chains for several requests in one launch on the drafter's device, which chooses the tokens itself
/// (runtime/device/op_chain.hpp). Used if only tokens are needed and the device supports the requests'
/// sampling settings.
class chained_draft {
 public:
  /// Largest number of context tokens, the newest included, that a chain feeds; with more tokens, ordinary
  /// passes are faster.
  static constexpr std::size_t most_given = 2;

  /// Adds `lane`, on whose session `settle` must have been called. The draft will have all levels that
  /// `bounds` allow. False, with nothing added, if more than `most_given` context tokens are missing, if the
  /// task needs distributions, alternates or the entropy, or if the device cannot choose the lane's tokens.
  bool add(draft_lane& lane, std::size_t vocab_size);

  std::size_t size() const noexcept { return members_.size(); }
  /// Runs the chain for all lanes that were added. False, with nothing done, if model or device do not
  /// support it.
  bool run(device::ops& ops, const model::language_model& model, model::kv_storage& kv);

 private:
  struct member {
    draft_lane* lane;
    std::vector<device::penalised_token> counts; ///< `settings` refers to these
    device::token_choice settings;
    std::size_t num_given; ///< context tokens that are fed
  };

  static device::chain_row row_at(const member& of, std::uint32_t sequence, std::size_t step,
                                  std::size_t vocab_size);
  static void take(const member& of, std::span<const device::chain_choice> chosen);

  std::vector<member> members_;
};

} // namespace paceline::speculation
