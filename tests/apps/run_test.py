"""`paceline run`: the flags that choose how drafts are verified, and what the report says of it."""
import json
import os
import subprocess

import pytest

PACELINE = os.environ["PACELINE_BIN"]
HASH = ("--model", "hash", "--prompt", "abcabcabc", "--max-tokens", "60", "--ignore-eos", "--temperature", "0.3")


def run(*arguments):
    return subprocess.run([PACELINE, "run", *HASH, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "flags, guarantee",
    [
        ((), "tokens"),
        (("--rule", "block"), "distribution"),
        (("--rule", "lenient", "--lenience", "0.25"), "lossy"),
        (("--rule", "typical", "--epsilon", "0.5", "--delta", "1"), "lossy"),
    ],
)
def test_the_report_names_rule_and_guarantee(flags, guarantee):
    done = run("--json", *flags)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["speculation"]
    assert figures["rule"] == (flags[1] if flags else "coupled")
    assert figures["guarantee"] == guarantee


@pytest.mark.parametrize(
    "flags",
    [
        ("--rule", "lucky"),
        ("--rule", "lenient", "--lenience", "0"),
        ("--rule", "typical", "--delta", "1.5"),
        ("--rule", "typical", "--lenience", "0.5"),
        ("--epsilon", "0.5"),
    ],
)
def test_rules_and_parameters_that_cannot_be_are_wrong_usage(flags):
    done = run(*flags)
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr != ""
