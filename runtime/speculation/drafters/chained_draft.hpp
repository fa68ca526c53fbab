#pragma once

#include "runtime/device/op_chain.hpp"
#include "runtime/speculation/drafters/draft_lane.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::speculation {

/// Chains of several requests whose tokens the drafter's device chooses one after the other, in one go
/// (runtime/device/op_chain.hpp): where tokens alone are wanted, and chosen as the device can.
class chained_draft {
 public:
  /// Tokens of the context, the newest among them, that a chain feeds: with more, passes are better.
  static constexpr std::size_t most_given = 2;

  /// Adds `lane`, whose session has settled; its draft is to have all levels of its bounds. False: its tokens
  /// are not chosen by a device.
  bool add(draft_lane& lane, std::size_t vocab_size);

  std::size_t size() const noexcept { return members_.size(); }
  /// The chain of all lanes that were added. `pass` runs it; false: nothing has been done.
  bool run(device::ops& ops, const model::language_model& model, model::kv_storage& kv);

 private:
  struct member {
    draft_lane* lane;
    std::vector<device::penalised_token> counts; ///< that the request's settings refer to
    device::token_choice settings;
    std::size_t num_given; ///< tokens of the context that are fed
  };

  static device::chain_row row_at(const member& of, std::uint32_t sequence, std::size_t step,
                                  std::size_t vocab_size);
  static void take(const member& of, std::span<const device::chain_choice> chosen);

  std::vector<member> members_;
};

} // namespace paceline::speculation
