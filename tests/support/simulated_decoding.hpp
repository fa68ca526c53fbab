#pragma once

#include "runtime/base/request.hpp"
#include "runtime/model/hash_model.hpp"
#include "runtime/speculation/drafters/drafter.hpp"
#include "runtime/speculation/verification/verification.hpp"

#include <cstdint>
#include <span>
#include <vector>

/// Speculative decoding without scheduler, actors or pool manager: every request owns consecutive blocks.
/// What remains is the drafter, the forward pass, the verdict and the growing context, enough to compare with
/// plain decoding.
namespace paceline::test {

/// Plain decoding, one token at a time, from logits that the model computes from the tokens alone, without
/// cache and rows. Ends after max_tokens.
std::vector<token_id> decode_plainly(const model::hash_model& target, const generation_request& request);

struct simulated_output {
  std::vector<token_id> tokens; ///< output only
  std::uint32_t num_rounds = 0;
  std::uint32_t num_draft_tokens = 0;
  std::uint32_t num_accepted_tokens = 0;
  std::uint32_t num_empty_drafts = 0;
};

/// Decodes all requests together, in one batch of rows for each round, with each request's rule and
/// `speculation.draft_length` (or the drafter's). Request i has id first_id + i.
std::vector<simulated_output> decode_speculatively(const model::hash_model& target,
                                                   speculation::drafter& drafter,
                                                   std::span<const generation_request> requests,
                                                   std::uint64_t first_id = 1);

} // namespace paceline::test
