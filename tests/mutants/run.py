#!/usr/bin/env python3
"""Builds this tree with one known bug at a time and reports whether the tests notice.

    tests/mutants/run.py [--only NAME ...] [--jobs 2] [--build build/mutants]

The tree is copied (tracked files as they are now), built once, and rebuilt for each mutant: some minutes each on two cores.
Exit status 1 if a mutant lives, or a test fails without any.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

from mutants import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEST_SECONDS = 600
# Bugs show in fewer requests, seeds and samples than the tests usually draw.
FEWER = {"PACELINE_RANDOM_REQUESTS": "2000", "PACELINE_SIMULATION_SEEDS": "40", "PACELINE_LAW_SAMPLES": "500000"}


def copy_tree(to: pathlib.Path) -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, files)):
        source, copy = ROOT / name, to / name
        if not source.is_file() or (copy.is_file() and copy.read_bytes() == source.read_bytes()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)  # with a new time: what a run that was stopped had built of it is stale


def build(folder: pathlib.Path, targets: set[str], jobs: int) -> bool:
    return subprocess.run(["cmake", "--build", folder, f"-j{jobs}", "--target", *sorted(targets)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).returncode == 0


def first_failure(folder: pathlib.Path, tests) -> str | None:
    for program, which in tests:
        try:
            done = subprocess.run([folder / "bin" / program, f"--gtest_filter={which}", "--gtest_fail_fast"],
                                  capture_output=True, text=True, errors="replace", timeout=TEST_SECONDS,
                                  env=os.environ | FEWER)
        except subprocess.TimeoutExpired:
            return f"{program}: does not end"
        if done.returncode != 0:
            failed = [line for line in done.stdout.splitlines() if line.startswith("[  FAILED  ]")]
            running = [line for line in done.stdout.splitlines() if line.startswith("[ RUN")]
            where = failed[0][13:] if failed else f"{running[-1][13:]} (ends the program)" if running else "?"
            return f"{program}: {where.split(',')[0].split(' (')[0]}"
    return None


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", nargs="+", default=[], metavar="NAME")
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "mutants")
    chosen = options.parse_args()
    mutants = [m for m in MUTANTS if not chosen.only or m.name in chosen.only]
    source, folder = chosen.build / "source", chosen.build / "build"
    copy_tree(source)
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DPACELINE_CUDA=OFF",
                    "-DPACELINE_BUILD_BENCH=OFF"], check=True, stdout=subprocess.DEVNULL)
    tests = sorted({test for m in mutants for test in m.tests})
    if not build(folder, {program for program, _ in tests}, chosen.jobs):
        sys.exit("the tree does not build")
    if broken := first_failure(folder, tests):
        sys.exit(f"fails without a mutant: {broken}")
    alive = []
    for mutant in mutants:
        begin = time.monotonic()
        originals = {name: (source / name).read_text() for name, _, _ in mutant.changes}
        try:
            for name, text, replacement in mutant.changes:
                path = source / name
                path.write_text(path.read_text().replace(text, replacement))
            if not build(folder, {program for program, _ in mutant.tests}, chosen.jobs):
                noticed = None
                print(f"{mutant.name}: DOES NOT BUILD", flush=True)
            else:
                noticed = first_failure(folder, mutant.tests)
                print(f"{mutant.name}: {noticed or 'LIVES'} ({time.monotonic() - begin:.0f} s)", flush=True)
        finally:
            for name, text in originals.items():
                (source / name).write_text(text)
        if not noticed:
            alive.append(mutant.name)
    print(f"{len(mutants) - len(alive)} of {len(mutants)} noticed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
