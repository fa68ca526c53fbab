"""Bugs of other inference servers, and of earlier versions of this one, as changes to this one that its tests have to notice.

A mutant is a few replacements of text that occurs exactly once in its file, and the tests that are to fail with it:
(test program, GoogleTest filter). `seen_in` says where the bug was found.
"""

from dataclasses import dataclass

KV = ("kv_test", "*")
RULES = ("speculation_test", "*one_step*:*several_steps*/soft_*:*several_steps*/*penalised:*several_steps*/*opposed:verification*:rejection*:block*")
DRAFTS = ("speculation_test", "draft*:*draft_lane*:*drawn*:*draw*:-draft_controller*")
LAWS = ("rejection_law_test", "*")
LAWS_OF_AUTO = (("speculation_test", "*auto_law*is_the_targets*"), ("rejection_law_test", "*law_of_auto*"))
SAMPLING = ("sampling_test", "*")
ACTORS = ("actors_test", "exactness*:scheduling*:simulation*:overlap*:*exactness_grid*")
RANDOM = ("engine_test", "random_requests*")
MATMUL = ("matmul_test", "*")
CHOICES = ("gpu_parity_test", "gpu_choose*")


@dataclass(frozen=True)
class Mutant:
    name: str
    seen_in: str
    changes: tuple[tuple[str, str, str], ...]  # file, text, replacement
    tests: tuple[tuple[str, str], ...]


MUTANTS = [
    # KV cells: who may read them, and for how long.
    Mutant("prefixes_are_shared_between_tenants", "prompt leaks by prefix caches, arXiv 2409.20002",
           (("runtime/kv/prefix_index.cpp", "root ? salt : std::string_view{},", "root ? salt.substr(0, 0) : std::string_view{},"),
            ("runtime/kv/prefix_index.cpp", "(parent.serial != 0 || *n.salt == salt) && ", "")), (KV,)),
    Mutant("a_hash_is_taken_for_its_tokens", "vLLM CVE-2025-25183",
           (("runtime/kv/prefix_index.cpp", " && std::ranges::equal(tokens_of(i), tokens))", ")"),), (KV,)),
    Mutant("blocks_are_published_before_they_are_computed", "SGLang #24175, #24193",
           (("runtime/kv/pool_memory.cpp", "* config.block_size <= table.length; ++table.num_published)",
             "* config.block_size <= std::min<std::size_t>(table.tokens.size(), capacity_of(table)); ++table.num_published)"),),
           (KV,)),
    Mutant("the_index_does_not_own_its_blocks", "SGLang #38319",
           (("runtime/kv/pool_memory.cpp", "    blocks.add_owner(table.blocks[i], block_owner::index);\n", ""),), (KV,)),
    Mutant("rows_are_written_through_blocks_given_back", "vLLM #56734",
           (("runtime/scheduling/memory_ledger.cpp", "  l.blocks.resize(num_blocks);\n", ""),), (ACTORS,)),
    Mutant("draft_tokens_run_past_the_last_block", "vLLM #16370",
           (("runtime/scheduling/round.cpp", "room(item.blocks.size() * block_size)",
             "room((item.blocks.size() + 1) * block_size)"),), (ACTORS,)),
    Mutant("a_block_is_listed_free_twice", "vLLM #42571",
           (("runtime/kv/block_pool.cpp", "    free_[slab_of(block)].push_back(block);\n",
             "    free_[slab_of(block)].push_back(block);\n    free_[slab_of(block)].push_back(block);\n"),), (KV,)),
    Mutant("blocks_are_free_while_a_pass_uses_them", "vllm-ascend #14055",
           (("runtime/kv/pool_memory.cpp", "  if (passed(r.after)) return carry_out(r);\n", "  return carry_out(r);\n"),), (KV,)),
    Mutant("a_drafters_cells_are_not_given_back", "llama.cpp #27692",
           (("runtime/scheduling/memory_ledger.cpp",
             "  return_drafter_lease(request, out);\n",
             ""),), (ACTORS,)),
    Mutant("a_rejected_token_gets_into_the_cache", "SGLang #35694",
           (("runtime/scheduling/scheduler_results.cpp", "first, item.committed, item.kv_length, item.snapshots});",
             "first, item.committed, item.length, item.snapshots});"),), (ACTORS,)),
    # The rules.
    Mutant("the_first_draft_token_is_not_verified", "lattice #243",
           (("runtime/speculation/verification/rejection.cpp", "if (dice.keeps(keep, position,",
             "if (depth == 0 || dice.keeps(keep, position,"),), (RULES,)),
    Mutant("the_likeliest_token_is_drafted_as_if_it_were_drawn", "jaymody/speculative-sampling #3",
           (("runtime/speculation/drafters/draft.cpp", "  return race.winner();\n", "  return from.tokens.front();\n"),), (RULES,)),
    Mutant("the_recovered_token_is_drawn_from_the_target", "vllm-ascend #2881",
           (("runtime/speculation/verification/rejection.cpp", "if (!terms.keep_target) rest",
             "if (terms.keep_target && !terms.keep_target) rest"),), (RULES,)),
    Mutant("the_rule_of_certain_drafts_is_used_for_drawn_ones", "the same class",
           (("runtime/speculation/verification/rejection_rule.cpp",
             "residual_weight(before, factor * from.prob(entry) * total_);",
             "from.prob(entry) == from.prob_of_drawn() ? 0.0 * factor : before;"),), (RULES,)),
    Mutant("drafts_are_drawn_at_another_temperature_than_said", "the same class",
           (("runtime/speculation/drafters/draft_lane.cpp",
             "portable_log(static_cast<double>(from.probs[i])) + noise",
             "1.3 * portable_log(static_cast<double>(from.probs[i])) + noise"),), (LAWS, DRAFTS)),
    Mutant("penalties_are_missing_in_verification", "vLLM #18902, TensorRT-LLM #17701",
           (("runtime/sampling/pipeline.cpp", "  if (penalties_) penalise(logits, row);\n",
             "  if (penalties_ && row.draft_path.empty()) penalise(logits, row);\n"),), (SAMPLING, RULES)),
    Mutant("the_noise_of_a_draft_draws_its_replacement", "vLLM #47386, #54282",
           (("runtime/speculation/verification/dice.cpp", "noise(noise_purpose::residual, position)",
             "noise(noise_purpose::draft, position)"),), (RULES, LAWS)),
    Mutant("drafts_are_drawn_from_rounded_probabilities", "DeepSpec #31",
           (("runtime/speculation/drafters/draft_lane.cpp", "#include <iterator>\n", "#include <bit>\n#include <iterator>\n"),
            ("runtime/speculation/drafters/draft_lane.cpp",
             "portable_log(static_cast<double>(from.probs[i])) + noise",
             "portable_log(static_cast<double>(std::bit_cast<float>(std::bit_cast<std::uint32_t>(from.probs[i]) & "
             "0xFFFF0000U))) + noise")), (DRAFTS,)),
    Mutant("log_probabilities_are_read_after_the_rule_worked_on_the_rows", "vllm-ascend #2881",
           (("runtime/rounds/round_runner.cpp",
             "std::span<const float>(raw_copy_).subspan(static_cast<std::size_t>(node + 1) * vocab, vocab);",
             "std::span<const float>(logits_).subspan((first + static_cast<std::size_t>(node + 1)) * vocab, vocab);"),),
           (RANDOM,)),
    Mutant("a_rejection_counts_one_token_late", "openvino.genai #4190",
           (("runtime/speculation/verification/rejection.cpp",
             "      result.next = dice.recovers(rest, row.position);\n",
             "      result.next = dice.recovers(rest, row.position);\n"
             "      result.accepted_path.push_back(siblings.front());\n"),), (RULES,)),
    Mutant("rollback_gives_everything_back", "aprender #2014",
           (("runtime/kv/pool_manager.cpp", "  const auto num_kept = p.blocks_for(length);\n",
             "  const auto num_kept = p.blocks_for(0);\n"),), (KV,)),
    Mutant("accepted_cells_move_to_the_wrong_slot", "llama.cpp #26478",
           (("runtime/kv/compaction.cpp", "base_length + static_cast<std::uint32_t>(i);",
             "base_length + static_cast<std::uint32_t>(i) + (path[i].value > base_length + i);"),),
           (ACTORS,)),
    Mutant("penalties_see_one_token_of_a_round", "SGLang #33643",
           (("runtime/rounds/request_progress.cpp", "  log.counts_.add_output(token);\n",
             "  if (event_.tokens.empty()) log.counts_.add_output(token);\n"),), (RANDOM,)),
    Mutant("the_minimum_length_counts_rounds", "SGLang #33643",
           (("runtime/speculation/verification/verification.hpp", ".output_index = output_index + depth,",
             ".output_index = output_index,"),), (RANDOM, RULES)),
    Mutant("an_end_within_a_draft_is_passed_over", "vLLM #41493",
           (("runtime/rounds/request_progress.cpp", "  if (may_stop && terms_->ends_with(token)) {\n",
             "  if (may_stop && event_.tokens.size() == 1 && terms_->ends_with(token)) {\n"),), (ACTORS, RANDOM)),
    Mutant("noise_is_keyed_by_rank", "SGLang #35697",
           (("runtime/sampling/row_kernels.cpp",
             "  for (const candidate& entry : tokens) race.enter(static_cast<double>(entry.score), entry.token);\n"
             "  return race.winner();\n",
             "  std::int32_t rank = 0;\n"
             "  for (const candidate& entry : tokens) race.enter(static_cast<double>(entry.score), token_id{rank++});\n"
             "  return tokens.empty() ? token_id{0} : tokens[static_cast<std::size_t>(race.winner().value)].token;\n"),),
           (SAMPLING,)),
    Mutant("a_rows_bits_depend_on_the_number_of_rows", "vLLM #54506, llama.cpp #25618",
           (("runtime/cpu/matmul.cpp", "  kernels_.quantise(x, num_blocks, first, stride);\n",
             "  kernels_.quantise(x, num_blocks, first, stride);\n"
             "  if (group.num_rows > 4) first->q[0] = static_cast<std::int8_t>(first->q[0] ^ 1);\n"),), (MATMUL,)),
    # Drafter `auto` under rules that compare probabilities: a choice that looks at the tokens that were drawn.
    Mutant("auto_chooses_among_drawn_drafts_by_their_nodes", "an earlier version of this one (docs/decisions/0575)",
           (("runtime/speculation/control/draft_controller.cpp", "{ return !proposal.probs.empty(); }",
             "{ return proposal.probs.size() > draft::max_rows; }"),), LAWS_OF_AUTO),
    Mutant("auto_takes_the_length_of_a_drawn_draft_for_its_plan", "an earlier version of this one (docs/decisions/0575)",
           (("runtime/speculation/control/draft_scoring.cpp", "return reach_by_level(proposal.plan, known.candidate, bias);",
             "return reach_by_level({proposal.tree.depths().back() + 1, proposal.tree.size()}, known.candidate, bias);"),),
           LAWS_OF_AUTO),
    Mutant("a_round_gives_auto_drawn_drafts_without_their_plan", "an earlier version of this one (docs/decisions/0575)",
           (("runtime/rounds/round_drafts.cpp", "if (proposal.plan.levels == 0) proposal.plan = {limit.length, limit.nodes};",
             "if (!proposal.tree.empty())\n"
             "        proposal.plan = {std::min(limit.length, proposal.tree.depths().back() + 1), proposal.tree.size()};"),),
           (LAWS_OF_AUTO[1],)),
    # Choices of a GPU.
    Mutant("ties_at_the_cut_go_to_another_token", "flashinfer #3774, vLLM #50979",
           (("gpu/kernels/top_scores.cuh", "(a.score == b.score && a.index < b.index)",
             "(a.score == b.score && a.index > b.index)"),), (CHOICES,)),
    Mutant("top_p_is_summed_in_another_order", "tokenspeed #206",
           (("gpu/kernels/choose.cuh", "total = total + shared.value[t];",
             "total = total + shared.value[num_tokens - 1 - t];"),), (CHOICES,)),
    Mutant("min_p_is_dropped_on_the_way_of_drafts", "vLLM #42744",
           (("gpu/kernels/choose.cuh", "thread_index() < num_kept && own.score >= row.min_score",
             "thread_index() < num_kept"),), (CHOICES,)),
]
