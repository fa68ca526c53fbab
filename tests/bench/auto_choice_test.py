"""bench/e2e/auto_choice.py: the prompts that it asks, and its ratios."""
import argparse
import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(os.environ["PACELINE_SOURCE_DIR"]) / "bench/e2e"))
import auto_choice


class Served:
    """Notes what is asked."""

    def __init__(self, names):
        self.names, self.asked = names, []

    def arms(self, workload, temperature, number):
        return self.names

    def ask(self, messages, arm, *_):
        self.asked.append((messages, arm))
        return 1.0, "text"


@pytest.mark.parametrize("skip, wanted", [(0, [0, 1]), (3, [3, 4]), (4, [4])])
def test_prompts_are_those_after_the_skipped_ones(tmp_path, skip, wanted):
    workload = tmp_path / "words.jsonl"
    workload.write_text("".join(json.dumps({"messages": number}) + "\n" for number in range(5)))
    served = Served(["auto"])
    run = auto_choice.measure(argparse.Namespace(prompts=2, skip=skip), served, workload, 0, 48)
    assert [messages for messages, _ in served.asked] == wanted
    assert len(run["seconds"]) == len(wanted)


def test_no_prompts_left_is_an_error(tmp_path):
    workload = tmp_path / "words.jsonl"
    workload.write_text(json.dumps({"messages": 0}) + "\n")
    with pytest.raises(SystemExit, match="words has 1 prompts"):
        auto_choice.measure(argparse.Namespace(prompts=2, skip=1), Served(["auto"]), workload, 0, 48)


def test_first_requests_have_plain_decoding_twice(tmp_path):
    known = tmp_path / "known.json"
    row = {arm: 2.0 for arm in auto_choice.ARMS} | {"ngram/5": 1.0}
    known.write_text(json.dumps([{"model": "m", "workload": "words", "temperature": 0, "seconds": [row, row]}]))
    cold = auto_choice.Cold(argparse.Namespace(cold=known, model="m.gguf"), tmp_path)
    assert sorted(cold.arms("words", 0, 0)) == ["auto", "ngram/5", "plain", "plain again"]


def test_ratios_of_first_requests_have_their_noise():
    told = auto_choice.ratios({"seconds": [{"plain": 6.0, "plain again": 3.0, "auto": 2.0, "ngram/5": 1.0},
                                           {"plain": 3.0, "plain again": 3.0, "auto": 2.0}]})
    assert told == {"best": [0.5, 1.5], "plain": [3.0, 1.5], "noise": [2.0, 1.0]}


def test_files_without_the_second_plain_arm_are_still_read():
    told = auto_choice.ratios({"seconds": [{"plain": 4.0, "auto": 2.0}]})
    assert told == {"best": [2.0], "plain": [2.0], "noise": []}


def test_ratios_of_warm_requests_take_the_best_setting_of_other_prompts():
    def row(**seconds):
        return {arm: 2.0 for arm in auto_choice.ARMS} | {"plain again": 1.0} | seconds
    told = auto_choice.ratios({"seconds": [row(**{"ngram/2": 1.0}), row(**{"suffix/5": 1.0})]})
    assert told["best"] == [1.0, 1.0], "each prompt's own best is another one"
    assert told["noise"] == [2.0, 2.0]
