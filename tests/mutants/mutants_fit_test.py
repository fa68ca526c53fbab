"""The list of mutants fits the sources: each text to replace occurs once. (run.py runs them.)"""

import collections
import pathlib

from mutants import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_text_occurs_once():
    for mutant in MUTANTS:
        for name, text, replacement in mutant.changes:
            assert (ROOT / name).read_text().count(text) == 1, (mutant.name, name)
            assert text != replacement, mutant.name


def test_names_are_unique_and_there_are_at_least_24():
    names = collections.Counter(m.name for m in MUTANTS)
    assert max(names.values()) == 1 and len(names) >= 24
