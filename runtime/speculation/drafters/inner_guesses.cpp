#include "runtime/speculation/drafters/inner_guesses.hpp"

#include <utility>

namespace paceline::speculation {

expected<std::shared_ptr<drafter>> make_inner_drafter(const drafter_parts& parts) {
  const std::string& kind = parts.options.inner;
  const auto refusal = [&] {
    return bad_option(parts.options,
                      "inner = \"" + kind +
                          "\", must be a kind that drafts in line and learns from tokens alone: "
                          "ngram, suffix, prediction, unigram, bigram, copy, random or synthetic");
  };
  if (kind == parts.options.kind || kind == "none" || !parts.make_another) return refusal();
  drafter_parts wanted = parts;
  wanted.options.kind = kind;
  auto made = parts.make_another(wanted);
  if (!made) return std::move(made).error();
  const drafter_traits& traits = (*made)->traits();
  const bool reads_the_target =
      traits.where != placement::in_line || traits.reads_target() || traits.top_tokens > 0;
  if (reads_the_target || (*made)->own_model() != nullptr) return refusal();
  return std::shared_ptr<drafter>(*std::move(made));
}

std::vector<token_id> guesses_behind(const draft_lane& lane, device::ops& ops, drafter& inner,
                                     std::uint32_t most) {
  if (most == 0) return {};
  const draft_task& own = *lane.task;
  std::vector<token_id> text(own.tokens.begin(), own.tokens.end());
  for (const tree_candidate& drafted : lane.candidates.nodes()) text.push_back(drafted.token);
  draft_task task{};
  task.request = own.request;
  task.tokens = text;
  task.sampling = own.sampling;
  task.counts = own.counts;
  task.prompt_length = own.prompt_length;
  task.num_settled = own.num_settled != 0 ? own.num_settled
                                          : static_cast<std::uint32_t>(own.tokens.size()) - own.num_foreseen;
  // Guesses need no distribution, because each is either right or wrong.
  task.rule = verification_rule::coupled;
  task.draft_length = task.max_nodes = task.max_rows = task.max_probe_depth = most;
  task.tenant = own.tenant;
  task.prediction = own.prediction;
  task.constraint = own.constraint;
  task.session = lane.session->inner.get();
  inner.propose(ops, nullptr, {&task, 1});
  const token_tree& tree = task.result.tree;
  std::vector<token_id> guesses;
  for (auto at = tree.children(token_tree::root); !at.empty() && guesses.size() < most;
       at = tree.children(at.front()))
    guesses.push_back(tree.tokens()[static_cast<std::size_t>(at.front())]);
  return guesses;
}

} // namespace paceline::speculation
