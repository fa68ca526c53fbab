"""bench/e2e/gaps.py and busy_edge.py with the weightless model: that they run, say what they saw and judge it. No figure is judged."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(os.environ["PACELINE_SOURCE_DIR"]) / "bench/e2e"
PACELINE = os.environ["PACELINE_BIN"]


def run(script, out, *flags, command=(PACELINE,)):
    """The exit status, what was printed, and the JSON."""
    done = subprocess.run([sys.executable, SCRIPTS / script, "--bin", *command, "--model", "hash", "--threads", "1", "--out", out, *map(str, flags)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1) and out.exists(), done.stderr
    return done.returncode, done.stdout, json.loads(out.read_text())


@pytest.mark.parametrize("max_gap", [0, 60])
def test_gaps_are_told_and_judged(tmp_path, max_gap):
    (tmp_path / "chat.jinja").write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
    (tmp_path / "talks.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "one two three " * 40}]}) + "\n")
    status, told, report = run("gaps.py", tmp_path / "gaps.json", "--workload", tmp_path / "talks.jsonl", "--chat-template", tmp_path / "chat.jinja",
                               "--streams", 1, 2, "--arrivals", 2, "--prompt-tokens", 500, "--pause", 0.5, "--max-gap", max_gap)
    assert [(line["streams"], line["arrivals"]) for line in report["lines"]] == [(1, 2), (2, 2)] and report["max_gap"] == max_gap
    for line in report["lines"]:
        assert line["gaps"] > 0 and 0 < line["median"] <= line["p99"] <= line["longest"] < 60
        assert line["without_arrival"]["gaps"] > 0 and f"{line['gaps']} gaps" in told
    assert status == int(max_gap == 0)


def test_a_busy_edge_is_told_and_judged(tmp_path):
    status, told, report = run("busy_edge.py", tmp_path / "edge.json", "--prompts", 1, "--seconds", 2, command=(PACELINE, "serve"))
    assert [line["what"] for line in report["lines"]] == ["/livez", "small request"]
    for line in report["lines"]:
        assert line["asked"] > 0 and line["median"] <= line["p99"] <= line["longest"] and line["statuses"] == [200]
        assert line["verdict"] == ("pass" if line["p99"] <= line["bound"] else "short") and f"{line['what']}: {line['asked']} times" in told
    assert all(count > 0 for count in report["load"].values())
    assert status == int(any(line["verdict"] == "short" for line in report["lines"]))
