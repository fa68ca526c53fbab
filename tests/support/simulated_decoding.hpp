#pragma once

#include "runtime/base/request.hpp"
#include "runtime/model/hash_model.hpp"
#include "runtime/speculation/drafters/drafter.hpp"
#include "runtime/speculation/verification/verification.hpp"

#include <cstdint>
#include <span>
#include <vector>

/// Speculative decoding without scheduler, actors and pool manager. Every request has consecutive blocks for
/// its whole text. Drafter, forward pass and verification rule are those of the runtime, so the output can be
/// compared with plain decoding.
namespace paceline::test {

/// Plain decoding, one token at a time. The model computes the logits from the whole text each time, without
/// a KV cache or a batch of rows. Ends after `max_tokens` tokens.
std::vector<token_id> decode_plainly(const model::hash_model& target, const generation_request& request);

struct simulated_output {
  std::vector<token_id> tokens; ///< output only
  std::uint32_t num_rounds = 0;
  std::uint32_t num_draft_tokens = 0;
  std::uint32_t num_accepted_tokens = 0;
  std::uint32_t num_empty_drafts = 0; ///< rounds whose draft had no token
};

/// Decodes all requests together, with one pass for each round. Each request has its own rule and its own
/// `speculation.draft_length`; without one, the drafter's default length is used. Request i has id first_id +
/// i.
std::vector<simulated_output> decode_speculatively(const model::hash_model& target,
                                                   speculation::drafter& drafter,
                                                   std::span<const generation_request> requests,
                                                   std::uint64_t first_id = 1);

} // namespace paceline::test
