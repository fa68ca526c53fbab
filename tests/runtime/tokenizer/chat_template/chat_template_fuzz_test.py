"""Random templates over random values: jinja2 and we must agree, on the text or on failing.

PACELINE_FUZZ_CASES and PACELINE_FUZZ_SEED choose how many and which."""

import os
import random

from jinja_oracle import Oracle, difference, render_all, transformers_environment
from template_grammar import Grammar, is_comparable, random_variables

PROGRAM = os.path.join(os.environ["PACELINE_BINARY_DIR"], "bin", "chat_template_runner")
CASES = int(os.environ.get("PACELINE_FUZZ_CASES", "2000"))
SEED = int(os.environ.get("PACELINE_FUZZ_SEED", "20240706"))
BATCH = 2000


def compare(environment, options, seed, cases, make):
    chosen = random.Random(seed)
    texts = compared = 0
    found = []
    for start in range(0, cases, BATCH):
        batch = [(make(Grammar(chosen)), random_variables(chosen)) for _ in range(min(BATCH, cases - start))]
        oracle = Oracle(environment)
        for (source, variables), ours in zip(batch, render_all(PROGRAM, batch, options)):
            expected = oracle.render(source, variables)
            if not is_comparable(expected):
                continue
            compared += 1
            texts += expected is not None
            told = difference(oracle, source, variables, ours)
            if told:
                found.append(f"template: {source!r}\nvariables: {variables!r}\n{told}")
    print(f"seed {seed}: {compared} compared, {texts} of them rendered, {len(found)} differ")
    if found and os.environ.get("PACELINE_FUZZ_REPORT"):
        with open(os.environ["PACELINE_FUZZ_REPORT"], "a", encoding="utf-8") as report:
            report.write("\n\n".join(found) + "\n\n")
    assert not found, f"seed {seed}: {len(found)} of {compared} differ, the first:\n{found[0]}"
    assert texts > 0.1 * cases, "hardly any template renders: the comparison proves little"


def test_random_templates_render_alike():
    compare(transformers_environment(), {}, SEED, CASES // 4, lambda grammar: grammar.template())


def test_random_expressions_print_alike():
    compare(transformers_environment(), {}, SEED + 1, CASES,
            lambda grammar: "{{ " + grammar.typed() + " }}|{{ (" + grammar.expression(2) + ")|string }}")


def test_random_templates_render_alike_without_trimming():
    options = {"trim_blocks": False, "lstrip_blocks": False, "keep_trailing_newline": True, "allow_mutation": True}
    compare(transformers_environment(**options), options, SEED + 2, CASES // 10, lambda grammar: grammar.template())
