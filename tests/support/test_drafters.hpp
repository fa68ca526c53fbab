#pragma once

#include "config/engine_options.hpp"
#include "runtime/model/hash_model.hpp"
#include "runtime/speculation/drafters/drafter.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Drafters of known quality, with the interface of the real ones.
namespace paceline::test {

/// Options of a drafter as in a configuration.
config::drafter_options options_of(std::string name, std::string kind);

/// The draft token after the task's committed tokens and `path`; a negative one ends the draft.
using next_token =
    std::function<token_id(const speculation::draft_task& task, std::span<const token_id> path)>;

/// Proposes chains of the tokens given by `next`.
std::unique_ptr<speculation::drafter> make_scripted_drafter(std::string name, next_token next);

/// Always right under rule `coupled`: the request's own sample from the target's logits, which `logits_after`
/// gives.
next_token own_sample(std::function<std::vector<float>(std::span<const token_id> context)> logits_after);
/// Always right: reads from finished sequences (prompt and output).
next_token recite(std::map<request_id, std::vector<token_id>> references);
/// Always wrong: another token than that of `right`.
next_token contradict(next_token right, std::uint32_t vocab_size);
/// A hash of request and position.
next_token guess(std::uint32_t vocab_size, std::uint64_t seed);

/// Reads the target's hidden state (taps) and continues from it as the target does: always right if the
/// features are those of the right row. Needs a hash model that reads its whole context (memory = 0).
std::unique_ptr<speculation::drafter> make_feature_drafter(std::string name,
                                                           std::shared_ptr<const model::hash_model> target);

/// Proposes trees: in every level the token given by `next` is the last of `width` siblings, and the others
/// are guesses. Adds to `num_wanted` the nodes that it would propose if it had cells for all of them.
std::unique_ptr<speculation::drafter>
make_tree_drafter(std::string name, next_token next, std::uint32_t width, std::uint32_t vocab_size,
                  std::shared_ptr<std::uint64_t> num_wanted = std::make_shared<std::uint64_t>());

/// Proposes trees with equal siblings: in every level a wrong token and two nodes with the token of `next`;
/// the first and the second of them have the branch alternately.
std::unique_ptr<speculation::drafter> make_twin_drafter(std::string name, next_token next,
                                                        std::uint32_t vocab_size);

} // namespace paceline::test
