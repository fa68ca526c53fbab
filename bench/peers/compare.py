"""Paceline and llama.cpp side by side: pairs of runs, one right after the other, in alternating order, so that what else
the machine does falls on both. Prints a table; with --out appends the figures to a JSON file for ../plot.py.

    bench/peers/setup.sh
    .cache/peers/bin/python bench/peers/compare.py --model smollm2.gguf --pairs 7
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("llama_cpp_runner.py")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours(args, what, tokens):
    flags = ["--prompt-tokens", str(tokens)] if what == "prefill" else ["--tokens", str(tokens), "--prompt-tokens", "8"]
    return run([args.paceline, "bench", what, "--model", args.model, "--threads", str(args.threads), "--repeats",
                str(args.repeats), "--json", *flags])


def theirs(args, what, tokens):
    flags = ["--prompt-tokens", str(tokens)] if what == "prefill" else ["--tokens", str(tokens), "--prompt-tokens", "8"]
    return run([sys.executable, RUNNER, what, "--model", args.model, "--threads", str(args.threads), "--repeats",
                str(args.repeats), *flags])


def compare(args, what, tokens):
    pairs = []
    provenance = None
    for number in range(args.pairs):
        sides = [("ours", ours), ("theirs", theirs)]
        pair = {}
        for name, side in sides if number % 2 == 0 else reversed(sides):
            figures = side(args, what, tokens)
            provenance = figures.get("provenance", provenance)
            pair[name] = figures["tokens_per_second"]
        pairs.append(pair)
        print(f"{what} {number + 1}/{args.pairs}: {pair['ours']:8.1f} {pair['theirs']:8.1f}  "
              f"{pair['ours'] / pair['theirs']:.2f}", file=sys.stderr)
    ratios = sorted(p["ours"] / p["theirs"] for p in pairs)
    return {
        "bench": what, "model": Path(args.model).name, "threads": args.threads, "tokens": tokens,
        "pairs": pairs, "ours": statistics.median(p["ours"] for p in pairs),
        "theirs": statistics.median(p["theirs"] for p in pairs), "ratio": statistics.median(ratios),
        "ratio_min": ratios[0], "ratio_max": ratios[-1], "provenance": provenance,
        "command": "bench/peers/compare.py " + " ".join(sys.argv[1:]),
        "date": datetime.date.today().isoformat(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, action="append", dest="models")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=1, help="runs inside a process, after one that warms up")
    parser.add_argument("--what", nargs="+", default=["decode", "prefill"], choices=["decode", "prefill"])
    parser.add_argument("--decode-tokens", type=int, default=128)
    parser.add_argument("--prefill-tokens", type=int, default=512)
    parser.add_argument("--paceline", default=ROOT / "build/release/bin/paceline")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    results = []
    for model in args.models:
        args.model = model
        for what in args.what:
            results.append(compare(args, what, args.decode_tokens if what == "decode" else args.prefill_tokens))
    print("| model | bench | ours, tokens/s | llama.cpp, tokens/s | ratio | spread |\n| --- | --- | --- | --- | --- | --- |")
    for r in results:
        print(f"| {r['model']} | {r['bench']} {r['tokens']} | {r['ours']:.1f} | {r['theirs']:.1f} | {r['ratio']:.2f} "
              f"| {r['ratio_min']:.2f} to {r['ratio_max']:.2f} |")
    if args.out:
        known = json.loads(args.out.read_text()) if args.out.exists() else []
        args.out.write_text(json.dumps(known + results, indent=1) + "\n")


if __name__ == "__main__":
    main()
