"""`paceline run --trace`: prints the rounds of a generation line by line, and the same text below them."""
import os
import re
import subprocess

PACELINE = os.environ["PACELINE_BIN"]


def run(*arguments):
    done = subprocess.run([PACELINE, "run", "--model", "hash", "--max-tokens", "40", "--ignore-eos", "--prompt",
                           "once more and once more", *arguments], capture_output=True, text=True, timeout=60, errors="replace")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_round_is_a_line_and_the_text_stays_the_same():
    text = run("--drafter", "none")
    shown = run("--trace", "--drafter", "ngram")
    lines = [line for line in shown.splitlines() if re.match(r"^ *\d+ +(plain|ngram \d+) \|", line)]
    rounds, tokens_a_round = re.search(r"(\d+) rounds, ([\d.]+) tokens a round", shown).groups()
    assert int(rounds) == len(lines) > 0
    assert abs(float(tokens_a_round) * len(lines) - 40) < 0.5 * len(lines)
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert text.strip() in shown
    assert "\x1b[" not in shown, "no colours where nobody sees them"


def test_auto_says_what_it_weighed():
    shown = run("--trace", "--drafter", "auto")
    lines = [line for line in shown.splitlines() if re.match(r"^ *\d+ +(plain|\w+ \d+) \|", line)]
    told = [line for line in lines if re.search(r"\((no draft|plain, to measure it|.*tokens for [\d.]+ passes|.*not worth a row).*\)$", line)]
    assert len(lines) > 5
    assert len(told) >= len(lines) - 2, "but for the round behind the prompt, and the last one"


def test_trace_and_json_do_not_mix():
    done = subprocess.run([PACELINE, "run", "--model", "hash", "--prompt", "x", "--trace", "--json"], capture_output=True, text=True)
    assert done.returncode == 2
