"""Compares drafter `auto` with the best fixed setting, chosen on other prompts. For each workload in files written by `paceline bench
spec --json`, the fixed setting (or plain decoding) that is best on the odd groups of prompts is compared with `auto` on the even
groups, group by group. Runs of the same model, workload, batch and temperature are combined. The bound is 0.98.

    python3 bench/held_out.py qwen-code_edit.json ...
"""
import argparse
import json
import random
import statistics
from pathlib import Path

BOUND = 0.98


def name_of(arm):
    return arm["drafter"] if arm["draft_length"] is None else f"{arm['drafter']}/{arm['draft_length']}"


def interval(ratios, seed=1, draws=4000):
    """The interval that contains 95 % of the medians of resampled ratios."""
    rng = random.Random(seed)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def compare(arms):
    """The best fixed setting on odd groups; `auto` over it on even groups; `auto` over plain decoding on all groups."""
    auto, plain = arms["auto"], arms["none"]
    odd, even = slice(0, None, 2), slice(1, None, 2)
    fixed = [name for name in arms if name != "auto"]
    best = max(fixed, key=lambda name: statistics.median(r / p for r, p in zip(arms[name][odd], plain[odd])))
    return best, [a / b for a, b in zip(auto[even], arms[best][even])], [a / p for a, p in zip(auto, plain)]


def runs(paths):
    """{(model, workload, batch, temperature): {arm: rates}}"""
    found = {}
    for path in paths:
        report = json.loads(path.read_text())
        for workload in report["workloads"]:
            key = (Path(report["model"]).stem, workload["workload"], workload["concurrency"], report["temperature"])
            arms = found.setdefault(key, {})
            for arm in workload["arms"]:
                arms.setdefault(name_of(arm), []).extend(arm["rates"])
    return found


def described(ratios):
    low, high = interval(ratios)
    return f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    args = parser.parse_args()
    print("| model | workload | batch | temperature | auto / plain | groups | best fixed, on odd groups | auto / best, on even groups | groups | 0.98 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for (model, workload, batch, temperature), arms in sorted(runs(args.files).items()):
        best, against_best, against_plain = compare(arms)
        verdict = all(statistics.median(r) >= BOUND for r in (against_best, against_plain))
        print(f"| {model} | {workload} | {batch} | {temperature:g} | {described(against_plain)} | {len(against_plain)} | {best} "
              f"| {described(against_best)} | {len(against_best)} | {'pass' if verdict else 'short'} |")


if __name__ == "__main__":
    main()
