#!/usr/bin/env python3
"""Compares every draft of a learned drafter in the daemon with the reference in training/reference.

    tests/e2e/head_parity.py --bin build/release/bin/paceline           the matrix of head_cases.py
    tests/e2e/head_parity.py --group eagle --group mtp                  two groups of it
    tests/e2e/head_parity.py --family medusa --family hydra             what it has of these
    tests/e2e/head_parity.py --case gemma3-eagle2 --seed 5              one of them, other weights
    tests/e2e/head_parity.py --case llama-speculators --mutant all      exits with 0 if every mistake is seen
    tests/e2e/head_parity.py --case llama-hydra-prefix --preempt        in so little memory that requests are set back

Targets and heads are small and random, in float32. Each round's draft is computed again from the tokens committed
before it. A step (one draft) counts if its closest decision was made by more than 5e-3: the gap between the best two
logits of a chain, or between the kept and the dropped log-probabilities at any selection of a dynamic tree, or between
children of a static one that have other subtrees. Exit code 1: fewer than 99.9 % of these are equal, or in a whole group
too few steps were seen, or too few behind rounds that accepted two tokens.
"""
import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
import head_requests  # noqa: E402
import head_rows  # noqa: E402
from head_cases import CASES, GROUPS, GROUPS_WITHOUT_POOL, Case  # noqa: E402

from training.reference import made_heads, made_targets, mutants, mtp  # noqa: E402
from training.reference.drafting import paths_of  # noqa: E402

SURE, LEAST_EQUAL, LEAST_STEPS, LEAST_BEHIND_TWO = 5e-3, 0.999, 1000, 1 / 3  # steps of a group
MOST_ATTEMPTS = 6
CONTEXT_OF_PREEMPTED = 544  # tokens: the longest request
REPORTED = 4  # differences of a case


@dataclasses.dataclass
class Tally:
    """Counts of steps. `sure`: by more than the margin; the following ones are among those."""

    steps: int = 0
    sure: int = 0
    equal: int = 0
    behind_two: int = 0    # after a round that accepted two tokens or more
    behind_other: int = 0  # after a path that is not always the first child
    short: int = 0         # smaller than asked for: compared as far as it goes
    undrafted: int = 0     # rounds that could have had a draft of the head and had none
    cached: int = 0        # requests whose prompt was partly in the prefix cache
    known: int = 0         # tokens in the prefix cache of the head's own pool
    preempted: int = 0     # requests set back for lack of memory

    def add(self, other):
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def share(self, count):
        return count / self.sure if self.sure else 0.0

    def __str__(self):
        equal, two, other = (100 * self.share(count) for count in (self.equal, self.behind_two, self.behind_other))
        return (f"{self.steps} steps, {self.sure} sure, equal {equal:.2f} %, behind two accepted {two:.0f} %, "
                f"behind other branches {other:.0f} %, short {self.short}, undrafted {self.undrafted}, "
                f"cached prompts {self.cached}, tokens known to the head {self.known}, preempted {self.preempted}")


def is_other_branch(traced):
    """True if the accepted path contains a node that is not the first child."""
    parents = traced["parents"]
    return any(parents[node] in parents[:node] for node in traced["accepted"])


def deciding(rounds):
    """The rounds that committed tokens; the others read a chunk of the prompt."""
    return [one for one, after in zip(rounds, [*rounds[1:], None])
            if after is None or after["base_length"] > one["base_length"]]


def check_trace(answer, traced):
    """The accepted nodes are the tokens that follow the base."""
    base, kept = traced["base_length"], [traced["draft_tokens"][node] for node in traced["accepted"]]
    if kept != answer.tokens[base:base + len(kept)]:
        raise SystemExit(f"trace: accepted {kept} at {base}, but the text has {answer.tokens[base:base + 8]}")


def describe(traced, expected):
    paths = paths_of(traced["draft_tokens"], traced["parents"])
    return (f"  base {traced['base_length']}: margin {expected.margin:.4f}, only in the daemon "
            f"{sorted(paths - expected.paths())[:4]}, only in the reference {sorted(expected.paths() - paths)[:4]}")


def of_fewer_levels(case, drafting, traced, levels, expected):
    """The reference's tree of as many levels as the draft has, if these are fewer than asked for and that is the draft: a
    lease that comes late has no cells for the deepest levels, but the tree may have all its nodes. Else None."""
    paths = paths_of(traced["draft_tokens"], traced["parents"])
    depth = max(len(path) for path in paths)
    if depth >= levels or paths == expected.paths():
        return None
    shallow = case.reference_draft(drafting, traced["base_length"], depth, min(len(paths), case.full_size(depth)))
    return shallow if paths == shallow.paths() else None


def compare_round(case, drafting, traced, before, levels, tally, report, template=None):
    """One draft of the head. `before` is the previous round that decided, if there is one. `template` is that of look-ahead rows."""
    size, full = len(traced["draft_tokens"]), case.full_size(levels) if template is None else len(template)
    tally.steps += 1
    tally.short += size < full and not case.threshold
    # A shorter draft, for want of memory or by drafter auto's choice, is compared as far as it goes.
    if template is None:
        expected = case.reference_draft(drafting, traced["base_length"], levels, min(size, full))
        shallow = of_fewer_levels(case, drafting, traced, levels, expected)
        if shallow is not None:
            expected = shallow
            tally.short += size >= full
    else:
        expected = drafting.fixed(traced["base_length"], template[:size])
    if expected.margin <= SURE:
        return
    equal = paths_of(traced["draft_tokens"], traced["parents"]) == expected.paths()
    tally.sure += 1
    tally.equal += equal
    tally.behind_two += before is not None and before["num_accepted"] >= 2
    tally.behind_other += before is not None and is_other_branch(before)
    if not equal and tally.sure - tally.equal <= REPORTED:
        report(describe(traced, expected))


def compare_answer(case, drafting, answer, tally, report):
    before, template = None, None
    rows = head_rows.RowsOfRounds(case, drafting.head, answer) if case.family in head_rows.FAMILIES else None
    for traced in deciding(answer.rounds):
        check_trace(answer, traced)
        base, size = traced["base_length"], len(traced["draft_tokens"])
        levels = min(case.draft_length, drafting.head.max_levels, answer.max_tokens - (base - len(answer.prompt)) - 1)
        if answer.drafter == "auto":
            levels = size if rows is None else min(case.draft_length, levels)  # it chooses its own length
        if rows is not None:
            template, is_short = rows.template(traced, levels)
            tally.short += is_short
            levels = len(template)
            rows.begin(traced)
        if traced["drafter"] == head_requests.DRAFTER and size > 0:
            compare_round(case, drafting, traced, before, levels, tally, report, template)
        elif base > len(answer.prompt) and levels > 0:
            tally.undrafted += 1
        before = traced


def compare(case, target, head, answers, report=lambda text: None):
    """The tally of a case's answers against a reference."""
    tally, passes = Tally(), {}  # a text that was asked for twice is computed once
    for answer in answers:
        text = tuple(answer.tokens[:-1])
        if text not in passes:
            passes[text] = target.forward(answer.tokens[:-1])
        features = passes[text].features(head.shape.taps)
        drafting = head.drafting(features, answer.tokens)
        compare_answer(case, drafting, answer, tally, report)
        tally.cached += answer.num_cached > 0
    return tally


def lenience_for(target, share, generator):
    """Keeps about `share` of tokens drawn at random."""
    logits = target.forward(torch.randint(0, target.shape.vocab_size, (64,), generator=generator).tolist()).logits
    below = (logits - logits.max(-1, keepdim=True).values).flatten()
    return float(below.quantile(1 - share).exp())


def run_case(case, arguments, folder):
    """Target, head and the daemon's answers."""
    shape = made_targets.shape_of(case.model_type, tie_word_embeddings=case.model_type == "gemma3_text")
    target = made_targets.random_target(shape, arguments.seed)
    head = made_heads.random_head(case.head, target, arguments.seed + 1)
    target.save(folder / "target")
    if case.is_own_module:
        mtp.add_to_target(head, folder / "target", target)
    else:
        made_heads.save(head, case.head, folder / "head", target)
    config = head_requests.config_of(folder / "target", None if case.is_own_module else folder / "head", case.kind, case.drafter_options)
    generator = torch.Generator().manual_seed(arguments.seed)
    lenience = lenience_for(target, 0.65 if case.tree == "chain" else 0.4, generator)
    settings = list(arguments.set)
    if arguments.preempt:
        config["models"][0]["context_length"] = CONTEXT_OF_PREEMPTED
        least = head_requests.least_memory(arguments.bin, config, folder)
        settings.append(f"engine.memory_budget={least * 5 // 4}B")
    client = head_requests.Client(arguments.bin, config, folder, settings)
    try:
        answers = head_requests.ask_everything(
            client, lambda count: torch.randint(0, shape.vocab_size, (count,), generator=generator).tolist(), lenience,
            arguments.tokens, case.with_auto)
        events = Tally(known=client.tokens_known_to_head(), preempted=client.preemptions())
    finally:
        client.stop()
    return target, head, answers, events


def unseen_mutants(name, case, target, head, answers, wanted):
    """Compares with mistaken references; returns how many of them pass for right."""
    unseen = 0
    for mutant in mutants.MUTANTS if wanted == "all" else [wanted]:
        mistaken = mutants.mutated(head, mutant)
        if mistaken is None or case.tree not in mutants.TREES.get(mutant, case.tree):
            continue
        tally = compare(case, target, mistaken, answers)
        equal = tally.share(tally.equal)
        is_seen = tally.sure > 0 and equal < LEAST_EQUAL
        unseen += not is_seen
        verdict = "" if is_seen else ", NOT SEEN"
        print(f"{name} with mistake {mutant}: equal {100 * equal:.1f} %{verdict}", flush=True)
    return unseen


def problems_of(total, group=None):
    """What is wrong with some cases' tally; more is asked of a whole group."""
    found = []
    if total.share(total.equal) < LEAST_EQUAL:
        found.append("drafts differ")
    if total.steps == 0 or total.undrafted > total.steps / 4:
        found.append("too few drafts")
    if total.short > total.steps / 10 and total.preempted == 0:  # who is preempted lacks memory for whole trees
        found.append("too many short drafts")
    if group is None:
        return found
    if total.sure < LEAST_STEPS:
        found.append(f"fewer than {LEAST_STEPS} sure steps")
    if total.share(total.behind_two) < LEAST_BEHIND_TWO or not total.behind_other:
        found.append("too few behind rounds that accepted two tokens or more, or behind other branches")
    if total.cached == 0:
        found.append("no prompt was found in the prefix cache")
    if total.known == 0 and group not in GROUPS_WITHOUT_POOL:
        found.append("no head found a text in the prefix cache of its pool")
    return found


def parsed_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin/paceline")
    parser.add_argument("--case", action="append", choices=CASES, help="default: all")
    parser.add_argument("--group", action="append", choices=GROUPS, help="of cases; default: all")
    parser.add_argument("--family", action="append", choices={one.family for one in CASES.values()},
                        help="cases of this kind of heads only")
    parser.add_argument("--model-type", choices=made_targets.MODEL_TYPES, help="instead of the case's")
    parser.add_argument("--head", choices=made_heads.KINDS, help="instead of the case's")
    parser.add_argument("--tree", choices=("chain", "static", "dynamic", "dart"), help="instead of the case's")
    for option in ("draft-length", "tree-top-k", "max-tree-nodes"):
        parser.add_argument("--" + option, type=int, help="instead of the case's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=48, help="generated by each request")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE",
                        help="of the daemon, such as engine.memory_budget=8MiB")
    parser.add_argument("--preempt", action="store_true", help="give the daemon memory for little more than one request")
    parser.add_argument("--mutant", choices=(*mutants.MUTANTS, "all"))
    return parser.parse_args()


def tally_of(name, case, arguments):
    """A case's answers against the reference. Which requests meet, and so whether one is preempted, is up to the machine: with
    --preempt a case is asked again, with other weights and prompts, until one was."""
    tally, seed = Tally(), arguments.seed
    for attempt in range(MOST_ATTEMPTS):
        arguments.seed = seed + attempt
        with tempfile.TemporaryDirectory() as folder:
            target, head, answers, events = run_case(case, arguments, Path(folder))
        tally.add(compare(case, target, head, answers, print))
        tally.add(events)
        if not arguments.preempt or tally.preempted > 0:
            break
    arguments.seed = seed
    print(f"{name}: {tally}", flush=True)
    return tally


def count_unseen(cases, arguments):
    """How many mistakes no case sees."""
    unseen = 0
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            target, head, answers, _ = run_case(case, arguments, Path(folder))
        unseen += unseen_mutants(name, case, target, head, answers, arguments.mutant)
    return unseen


def has_problems(label, cases, arguments, group=None):
    """Runs cases and prints what is wrong with them. `group`: that of which these are all cases."""
    total, idle = Tally(), []
    for name, case in cases.items():
        tally = tally_of(name, case, arguments)
        idle += [name] if arguments.preempt and tally.preempted == 0 else []
        total.add(tally)
    problems = problems_of(total, group)
    problems += [f"no request was set back: {', '.join(idle)}"] if idle else []
    print(f"{label}: {total}", *problems, sep="\n  ", flush=True)
    return bool(problems)


def main():
    arguments = parsed_arguments()
    torch.set_num_threads(1)
    changes = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Case)
               if getattr(arguments, field.name, None) is not None}
    groups = arguments.group or list(GROUPS)
    if arguments.case or arguments.family or arguments.mutant or changes:
        wanted = {name: dataclasses.replace(case, **changes) for group in groups for name, case in GROUPS[group].items()
                  if name in (arguments.case or CASES) and case.family in (arguments.family or [case.family])}
        return count_unseen(wanted, arguments) > 0 if arguments.mutant else has_problems("all", wanted, arguments)
    return any([has_problems(group, GROUPS[group], arguments, group) for group in groups])


if __name__ == "__main__":
    sys.exit(main())
