#!/usr/bin/env python3
"""Bounds the work of XGrammar 0.2.8, whose source is in the folder given.

Some small grammars keep the package busy for hours or fill the memory, when they are compiled or at one token of a text. Each row
of `INSERTIONS` adds a line at a place whose work or memory a grammar can multiply. `CountWork` is defined in
runtime/grammar/library_work.cpp, which ends the work when too much is counted; one unit is about 50 ns, and ~0U ends it at once. Stops with an error
if a place is not there exactly as often as expected.
"""
import sys
from pathlib import Path

BEFORE, AFTER = range(2)
# file, the line to look for (without its indentation), how often it is there, where to insert, what
INSERTIONS = [
    # Steps of the parser, and what it looks through at each of them.
    ("earley_parser.cc", "while (!tmp_process_state_queue_.empty()) {", 3, AFTER, "CountWork(1);"),
    ("earley_parser.cc", "while (!tmp_process_state_queue_.empty()) {", 3, AFTER,
     "if (rule_id_to_completable_states_.DataSize() + tmp_states_to_be_added_.size() + tmp_process_state_queue_.size() > "
     "(1 << 21) + 32 * scanable_state_history_.size()) CountWork(~0U);"),
    ("earley_parser.cc", "Scan(state, ch);", 1, BEFORE, "CountWork(1);"),
    ("earley_parser.cc", "bool EarleyParser::Advance(const uint8_t ch, bool debug_print) {", 1, AFTER, "CountWork(1);"),
    ("earley_parser.cc", "for (const auto& [ref_id, parent_state] : parent_states_map) {", 1, BEFORE,
     "CountWork(1 + parent_states_map.size() / 16);"),
    ("earley_parser.cc", "for (const auto& parent_state_iter : parent_states_map) {", 2, BEFORE,
     "CountWork(1 + parent_states_map.size() / 16);"),
    ("earley_parser.cc", "const auto in_vec = [&](const ParserState& state_) {", 2, AFTER,
     "CountWork(1 + rule_id_to_completable_states_.Back().size() / 16);"),
    ("earley_parser.cc", "for (const auto& edge : fsm.GetFsm().GetFsm().GetEdges(state.element_id)) {", 1, BEFORE,
     "CountWork(fsm.GetFsm().GetFsm().GetEdges(state.element_id).size() / 16);"),
    ("earley_parser.cc", "for (const auto& edge : current_fsm.GetFsm().GetFsm().GetEdges(state.element_id)) {", 2, BEFORE,
     "CountWork(current_fsm.GetFsm().GetFsm().GetEdges(state.element_id).size() / 16);"),
    ("earley_parser.cc", "flags_cache.resize(fsm.NumStates());", 1, BEFORE, "CountWork(fsm.NumStates() / 8);"),
    # The states that it keeps for each byte of a text, of about 90 bytes each.
    ("earley_parser.cc", "scanable_state_history_.PushBack(tmp_states_to_be_added_);", 3, AFTER,
     "if (scanable_state_history_.DataSize() + rule_id_to_completable_states_.DataSize() > "
     "(1 << 20) + 32 * scanable_state_history_.size()) CountWork(~0U);"),
    ("support/compact_2d_array.h", "int32_t size() const { return static_cast<int32_t>(indptr_.size()) - 1; }", 1, AFTER,
     "std::size_t DataSize() const { return data_.size(); }"),
    # Masks of one state, when a text is followed and when a grammar is compiled.
    ("grammar_matcher.cc", "const auto& adaptive_token_mask = adaptive_token_mask_it->second;", 2, AFTER,
     "CountWork(32 + adaptive_token_mask.uncertain_indices.size() / 16);"),
    ("grammar_matcher.cc", "const auto& current_edges = fsm.GetFsm().GetFsm().GetEdges(state.element_id);", 1, AFTER,
     "CountWork(1 + current_edges.size() / 16);"),
    ("grammar_compiler.cc", "auto cur_adaptive_token_mask_cache = grammar_matcher.GetAdaptiveTokenMask(is_root_rule);", 1, AFTER,
     "CountWork(tokenizer_info_.GetVocabSize() / 64 + compiled_grammar_impl->grammar->NumRules() / 4 + "
     "MemorySize(cur_adaptive_token_mask_cache) / 2);"),
    # Passes over a grammar before that.
    ("grammar_builder.cc", "grammar_->grammar_expr_indptr_.push_back(grammar_->grammar_expr_data_.size());", 1, BEFORE,
     "CountWork(8 + 4 * grammar_expr.data_len);"),
    ("grammar_functor.cc", "info.suffix_after_first_occurrence.assign(", 1, BEFORE, "CountWork(4 * (sequence_expr.size() - j));"),
    ("grammar_functor.cc", "auto element_expr = base_grammar_->GetGrammarExpr(i);", 2, BEFORE, "CountWork(1);"),
    ("fsm.cc", "while (changed) {", 1, AFTER, "CountWork(4 * result.NumStates());"),
    ("fsm.cc", "auto siblings = outgoing_edges[previous_state];", 1, AFTER, "CountWork(1 + siblings.size() / 3);"),
    ("fsm.cc", "auto siblings = incoming_edges[next_state];", 1, AFTER, "CountWork(1 + siblings.size() / 3);"),
    ("fsm.cc", "edges_.emplace_back();", 1, BEFORE, "CountWork(24);"),
    # A parser keeps a byte for each state of all rules and each rule that it has met.
    ("grammar_compiler.cc", "compiled_grammar_impl->tokenizer_info = tokenizer_info_;", 1, AFTER,
     "XGRAMMAR_CHECK(compiled_grammar_impl->grammar->complete_fsm.NumStates() < (1LL << 28) / "
     '(1 + compiled_grammar_impl->grammar->NumRules())) << "the grammar has too many rules and states";'),
    # Repetitions of rules that are repetitions are the only recursion over rules; it has no other bound.
    ("grammar_functor.cc", "std::map<std::vector<int64_t>, int32_t> repetition_cache_;", 1, AFTER, "int repetition_depth_ = 0;"),
    ("grammar_functor.cc", "grammar_expr_id = VisitExpr(ref_choice[0]);", 1, BEFORE,
     'XGRAMMAR_CHECK(++repetition_depth_ <= 64) << "repetitions of repetitions are nested more than 64 times";'),
    ("grammar_functor.cc", "grammar_expr_id = VisitExpr(ref_choice[0]);", 1, AFTER, "--repetition_depth_;"),
    # The search for the text that must follow: `root ::= "a" root` would not come back. runtime/grammar/token_cursor.cpp looks
    # again where it needs more.
    ("grammar_matcher.cc", "while (can_find_next_char) {", 1, AFTER, "if (num_accepted_chars >= 96) break;"),
]
DECLARATION = "\nnamespace xgrammar {\nvoid CountWork(unsigned num_steps);"


def main():
    folder = Path(sys.argv[1])
    for name in sorted({row[0] for row in INSERTIONS}):
        text = (folder / name).read_text()
        if name.endswith(".cc"):
            text = text.replace("\nnamespace xgrammar {", DECLARATION, 1)
        lines = text.split("\n")
        for file, wanted, count, where, added in INSERTIONS:
            if file != name:
                continue
            places = [number for number, line in enumerate(lines) if line.strip() == wanted]
            if len(places) != count:
                sys.exit(f"xgrammar: {name} has {wanted!r} {len(places)} times instead of {count}: the bounds do not fit this version")
            for number in reversed(places):
                lines.insert(number + where, added)
        (folder / name).write_text("\n".join(lines))


if __name__ == "__main__":
    main()
