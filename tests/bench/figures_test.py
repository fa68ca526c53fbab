"""bench/gpu/figures.py without a GPU: on the CPU and on an emulated one, with models of a tiny shape. No figure is judged."""
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(os.environ["PACELINE_SOURCE_DIR"])
BIN = Path(os.environ["PACELINE_BINARY_DIR"]) / "bin"
SCRIPT = ROOT / "bench/gpu/figures.py"
SMALL = ["--shape", "tiny", "--repeats", 1, "--context", 8]

spec = importlib.util.spec_from_file_location("figures", SCRIPT)
figures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(figures)


def measured(out, stages, *flags):
    """Rows by stage. The report has for every bench the command that repeats it."""
    done = subprocess.run([sys.executable, SCRIPT, "--out", out, "--work", out / "models", "--paceline", BIN / "paceline", "--tests",
                           BIN / "gpu_hardware_test", "--stages", stages, *map(str, SMALL + list(flags))], capture_output=True, text=True,
                          timeout=800)
    assert done.returncode in (0, 1), done.stderr
    rows = json.loads((out / "figures.json").read_text())
    assert done.returncode == int(any(r["verdict"] == "short" for r in rows))
    for stage in stages.split(","):
        left = json.loads((out / f"{stage}.json").read_text())
        assert [r for r in rows if r["stage"] == stage] == left["rows"] and left["rows"]
        assert all(ran["command"] for ran in left["ran"])
        for r in left["rows"]:
            assert r["what"] in done.stdout
    return {stage: [r for r in rows if r["stage"] == stage] for stage in stages.split(",")}


def verdicts(rows):
    return [r["verdict"] for r in rows]


def test_every_stage_runs_on_a_cpu(tmp_path):
    rows = measured(tmp_path, "8b_bf16,8b_q4_k,1b,draft,fast", "--device", "cpu", "--tokens", 8, "--prompt-tokens", 24)
    for stage in ("8b_bf16", "8b_q4_k"):
        decode, idle, eight, thirty_two = rows[stage]
        assert decode["measured"] > 0 and decode["bound"] == (">= 70" if stage == "8b_bf16" else ">= 50")
        assert idle["verdict"] == "not measured" and "clock" in idle["note"]
        assert eight["bound"] == "<= 1.15" and thirty_two["bound"] == "<= 1.5" and thirty_two["measured"] > 0
    assert rows["1b"][0]["bound"] == ">= 45"
    assert [r["bound"] for r in rows["draft"]] == ["<= 0.45"] * 2 and "pass by pass" in rows["draft"][0]["note"]
    assert rows["fast"][0]["measured"] > 0 and verdicts(rows["fast"]) == ["told", "not measured"]


def test_texts_do_not_differ_on_a_cpu(tmp_path):
    rows = measured(tmp_path, "exact", "--device", "cpu", "--tokens", 8)["exact"]
    assert [r["measured"] for r in rows] == [0, 0] and verdicts(rows) == ["pass", "pass"]
    assert rows[0]["unit"] == f"of {2 * 19 * 4}"  # plain, and two drafters of three lengths in three modes; one and four at a time


def test_what_cannot_be_measured_says_why(tmp_path):
    rows = measured(tmp_path, "accuracy,peer", "--device", "cpu", "--tokens", 8)
    assert "no --model" in rows["accuracy"][0]["note"]
    assert rows["peer"][0]["verdict"] == "told" and rows["peer"][0]["measured"] > 0
    if importlib.util.find_spec("torch") is None:
        assert rows["peer"][-1]["verdict"] == "not measured" and "torch" in rows["peer"][-1]["note"]
    without = tmp_path / "without"
    without.write_text("#!/bin/sh\necho 'x_test.cpp:1: Skipped'\necho 'this machine has no GPU'\necho '[  PASSED  ] 4 tests.'\n")
    without.chmod(0o755)
    rows = measured(tmp_path / "1", "parity", "--tests", without)["parity"]
    assert verdicts(rows) == ["not measured"] and "no GPU" in rows[0]["note"]
    no_program = measured(tmp_path / "2", "parity,1b", "--tests", tmp_path / "nothing", "--paceline", tmp_path / "nothing")
    assert verdicts(no_program["parity"] + no_program["1b"]) == ["not measured"] * 2
    assert "not built" in no_program["parity"][0]["note"] and "nothing" in no_program["1b"][0]["note"]


@pytest.fixture(scope="module")
def emulated():
    return ["--paceline", BIN / "paceline_emulated", "--device", "cuda:0"]


def test_what_only_a_gpu_has_is_measured_on_an_emulated_one(tmp_path, emulated):
    rows = measured(tmp_path, "1b,draft", *emulated, "--tokens", 6)
    decode, idle = rows["1b"]
    assert decode["measured"] > 0 and "the device reads" in decode["note"]
    assert idle["verdict"] in ("pass", "short") and 0 < idle["measured"] <= 100
    assert all("in one launch" in r["note"] for r in rows["draft"])


def test_overlap_is_measured_with_two_devices_either_way_round(tmp_path, emulated):
    rows = measured(tmp_path, "overlap", *emulated, "--tokens", 16, "--batch", 2)["overlap"]
    here, there = "target on cuda:0, drafter on cpu", "target on cpu, drafter on cuda:0"
    assert [r["what"] for r in rows] == [f"overlap {mode}, {where}" for where in (there, here) for mode in ("ahead", "groups, 2 requests")]
    # The emulation reads prompts so slowly that a target's first request may end before another one begins.
    if rows[-1]["verdict"] == "not measured":
        assert "no rounds" in rows.pop()["note"]
    for r in rows:
        assert r["measured"] > 0 and r["bound"] == "0.9 to 1.1" and " 0 other texts" in r["note"]
    # In groups the first rounds do not count, so a short text has none left.
    short = measured(tmp_path / "short", "overlap", "--device", "cpu", "--tokens", 3)["overlap"]
    assert verdicts(short)[1::2] == ["not measured"] * 2 and "no rounds" in short[1]["note"]


def test_parity_counts_what_the_tests_say(tmp_path):
    rows = measured(tmp_path, "parity", "--tests", BIN / "gpu_parity_test", "--test-filter", "read_memory.*:device_clock.*")["parity"]
    assert verdicts(rows) == ["pass"] and rows[0]["unit"] == "failed, 3 passed, 0 skipped"
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\necho '[  FAILED  ] a.b (1 ms)'\necho '[  PASSED  ] 4 tests.'\necho '[  FAILED  ] 1 test, listed below:'\nexit 1\n")
    failing.chmod(0o755)
    rows = measured(tmp_path / "2", "parity", "--tests", failing)["parity"]
    assert verdicts(rows) == ["short"] and rows[0]["measured"] == 1 and rows[0]["note"] == "a.b"


def test_a_failure_is_none_of_a_missing_gpu_and_remarks_are_kept(tmp_path):
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\necho 'paceline: no cuBLASLt' >&2\necho 'this machine has no GPU'\necho '[  FAILED  ] 2 tests, listed below:'\n"
                       "echo '[  FAILED  ] a.b'\nexit 1\n")
    remarking = tmp_path / "remarking"
    remarking.write_text("#!/bin/sh\necho 'paceline: steps go on without a CUDA graph: why' >&2\necho '[  PASSED  ] 4 tests.'\n")
    failing.chmod(0o755), remarking.chmod(0o755)
    assert verdicts(measured(tmp_path / "1", "parity", "--tests", failing)["parity"]) == ["short"]
    rows = measured(tmp_path / "2", "parity", "--tests", remarking)["parity"]
    assert verdicts(rows) == ["pass", "told"] and rows[1]["note"] == "steps go on without a CUDA graph: why"


def test_every_sanitized_test_is_there():
    for pattern in figures.SANITIZED.split(":"):
        listed = subprocess.run([BIN / "gpu_parity_test", "--gtest_list_tests", f"--gtest_filter={pattern}"], capture_output=True, text=True)
        assert any(line.startswith("  ") for line in listed.stdout.splitlines()), pattern


def test_bounds_are_those_that_were_asked_for():
    assert figures.row("x", 2.9, "", at_most=3)["verdict"] == figures.row("x", 70, "", at_least=70)["verdict"] == "pass"
    assert figures.row("x", 3.1, "", at_most=3)["verdict"] == figures.row("x", 69.9, "", at_least=70)["verdict"] == "short"
    assert [figures.row("x", v, "", at_least=0.9, at_most=1.1)["verdict"] for v in (0.89, 0.9, 1.1, 1.11)] == ["short", "pass", "pass", "short"]
    assert figures.row("x", 5, "")["verdict"] == "told"
