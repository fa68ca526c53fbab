"""Paceline and llama.cpp side by side: pairs of runs, one right after the other, in alternating order, so that what else
the machine does falls on both. Prints a table; with --out appends the figures to a JSON file for ../plot.py.

    bench/peers/setup.sh
    .cache/peers/bin/python bench/peers/compare.py --model smollm2.gguf --pairs 7

`--what lookup` runs the prompts of a workload greedily, each engine with prompt lookup against itself without, prompt by prompt:

    .cache/peers/bin/python bench/peers/compare.py --model qwen.gguf --what lookup --workload code_edit.jsonl --requests 8
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


def lookup(args):
    """Each engine's speed-up by drafts looked up in the text so far, over its own plain decoding."""
    workload = ["--workload", args.workload, "--requests", str(args.requests)]
    ours = run([args.paceline, "bench", "serve", "--model", args.model, "--threads", str(args.threads), "--drafters", "none,ngram",
                "--draft-length", str(args.draft_length), "--max-tokens", str(args.decode_tokens), "--json", *workload])
    theirs = run([sys.executable, RUNNER, "lookup", "--model", args.model, "--threads", str(args.threads),
                  "--draft-length", str(args.draft_length), "--tokens", str(args.decode_tokens), *workload])
    speed_up = ours["drafters"][1]["speed_up"]
    ratios = sorted(p["lookup"] / p["plain"] for p in theirs["pairs"])
    print(f"| {Path(args.model).name} | {Path(args.workload).stem} | {speed_up['median']:.2f} ({speed_up['min']:.2f} to {speed_up['max']:.2f}) "
          f"| {theirs['speed_up']:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |")
    return {"bench": "lookup", "model": Path(args.model).name, "workload": Path(args.workload).stem, "threads": args.threads,
            "draft_length": args.draft_length, "tokens": args.decode_tokens, "ours": speed_up, "theirs": ratios,
            "provenance": ours["provenance"], "command": "bench/peers/compare.py " + " ".join(sys.argv[1:])}


def store(path, results):
    known = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps(known + results, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, action="append", dest="models")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=1, help="runs inside a process, after one that warms up")
    parser.add_argument("--what", nargs="+", default=["decode", "prefill"], choices=["decode", "prefill", "lookup"])
    parser.add_argument("--decode-tokens", type=int, default=128)
    parser.add_argument("--prefill-tokens", type=int, default=512)
    parser.add_argument("--workload", help="of --what lookup: JSON lines")
    parser.add_argument("--requests", type=int, default=8, help="of --what lookup: prompts taken from the workload")
    parser.add_argument("--draft-length", type=int, default=5, help="of --what lookup")
    parser.add_argument("--paceline", default=ROOT / "build/release/bin/paceline")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if "lookup" in args.what:
        if args.what != ["lookup"] or not args.workload or len(args.models) != 1:
            parser.error("--what lookup stands alone, with one --model and a --workload")
        args.model = args.models[0]
        print("| model | workload | our speed-up | llama.cpp's |\n| --- | --- | --- | --- |")
        result = lookup(args)
        if args.out:
            store(args.out, [result])
        return
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
        store(args.out, results)


if __name__ == "__main__":
    main()
