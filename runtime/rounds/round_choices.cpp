#include "runtime/device/ops.hpp"
#include "runtime/rounds/round_runner.hpp"

// Tokens are chosen by the host from rows of logits, or by a device that has the logits
// (device::ops::choose); then only a few bytes are copied to the host. The tokens are the same.

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

/// Leaves the decision to the device if the device has the logits and supports the request's settings, and
/// nothing else needs the rows. The device then also moves the cells of an accepted path. This function is
/// called before the part's rows are added to sequence `sequence_index` of the pass.
void round_runner::offer_to_device(const device::ops& ops, batch_part& part, std::uint32_t sequence_index) {
  const auto& terms = *part.item->request.terms;
  const auto& log = *part.item->request.log;
  const auto& request = terms.request();
  const auto& info = resources_.target->info();
  const bool rows_are_read = request.sampling.num_logprobs || request.sampling.prompt_logprobs ||
                             part.beams || !part.draft.probes.empty() || num_top_tokens(part) > 0;
  if (!ops.can_choose() || !info.logits_by_ops || !part.decides || rows_are_read || log.remaining() == 0 ||
      request.constraint) // masks are made on the host
    return;
  if (!speculation::follows_samples(request.speculation, terms.pipeline())) return;
  auto choice = terms.pipeline().settings_for_device({.committed = &log.counts(),
                                                      .position = token_position{log.length()},
                                                      .output_index = log.output_length()},
                                                     info.vocab_size, part.counts);
  if (!choice) return;
  choice->first_row = static_cast<std::uint32_t>(choice_rows_.size());
  choice->draft_tokens = part.draft.tree.tokens();
  choice->parents = part.draft.tree.parents();
  part.choice = choices_.size();
  choices_.push_back(*choice);
  if (!part.draft.tree.is_chain()) // cells of a chain are in place
    drafted_.push_back(
        {static_cast<std::uint32_t>(*part.choice), sequence_index, kv_slot{log.length()}, choice->parents});
}

/// The kept nodes of the part's draft, and the token after them. `first_logits` is the row of the last
/// committed token.
speculation::verdict round_runner::verdict_for(const batch_part& part, std::uint32_t first_logits) {
  if (part.choice) return speculation::verdict_of(chosen_[*part.choice], part.draft.tree);
  const auto& terms = *part.item->request.terms;
  const auto& log = *part.item->request.log;
  const auto row_of = [&](std::int32_t node) {
    return logits_row(first_logits + static_cast<std::uint32_t>(node + 1));
  };
  const speculation::verification_context context{&terms.pipeline(),
                                                  &log.counts(),
                                                  token_position{log.length()},
                                                  log.output_length(),
                                                  part.item->request.progress->constraint(),
                                                  log.output()};
  return speculation::verify(terms.request().speculation, part.draft, context, row_of);
}

} // namespace paceline::rounds
