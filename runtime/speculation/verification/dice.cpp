#include "runtime/speculation/verification/dice.hpp"

#include "runtime/sampling/row_kernels.hpp"

namespace paceline::speculation {

bool request_dice::keeps(double probability, token_position position, std::uint32_t place) {
  return sampling_->noise(noise_purpose::accept, position, place).uniform() < probability;
}

token_id request_dice::recovers(remaining_target& rest, token_position position) {
  return sampling::gumbel_argmax(rest.write_scores(), sampling_->noise(noise_purpose::residual, position));
}

} // namespace paceline::speculation
