"""Decoding speed while another program takes half of a core, relative to undisturbed decoding: pairs of consecutive runs, without and
with a busy loop pinned to one core. The bound is 50 %.

    python3 bench/busy_core.py --model smollm2.gguf --core 1 --pairs 6
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOOP = ["sh", "-c", "while :; do :; done"]


def decode(args):
    command = [args.paceline, "bench", "decode", "--model", args.model, "--threads", str(args.threads), "--tokens", str(args.tokens),
               "--repeats", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def beside_a_loop(args):
    loop = subprocess.Popen(LOOP, preexec_fn=lambda: os.sched_setaffinity(0, {args.core}))
    try:
        return decode(args)
    finally:
        loop.kill()
        loop.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--core", type=int, default=1, help="that the loop is pinned to")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--paceline", default=ROOT / "build/release/bin/paceline")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    pairs = []
    for number in range(args.pairs):
        alone, beside = decode(args), beside_a_loop(args)
        pairs.append({"alone": alone["tokens_per_second"], "beside": beside["tokens_per_second"]})
        print(f"{number + 1}/{args.pairs}: {pairs[-1]['alone']:.1f} alone, {pairs[-1]['beside']:.1f} beside", file=sys.stderr)
    left = sorted(p["beside"] / p["alone"] for p in pairs)
    share = statistics.median(left)
    print(f"{Path(args.model).name}: {share:.0%} left ({left[0]:.0%} to {left[-1]:.0%}), {'pass' if share >= 0.5 else 'short'}")
    if args.out:
        known = json.loads(args.out.read_text()) if args.out.exists() else []
        figures = {"bench": "busy_core", "model": Path(args.model).name, "core": args.core, "pairs": pairs, "left": share,
                   "provenance": alone["provenance"]}
        args.out.write_text(json.dumps(known + [figures], indent=1) + "\n")


if __name__ == "__main__":
    main()
