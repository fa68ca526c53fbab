"""Compares Paceline with llama.cpp's own programs: pairs of consecutive runs in alternating order, so that other load affects all
alike. Every build of llama.cpp runs in every pair; the one with the best median counts. A build that fails
(GCC 12's stops with an illegal instruction on machines with AMX) is recorded and left out.

    bench/peers/setup.sh
    python3 bench/peers/compare.py --model smollm2.gguf --model qwen.gguf --workload bench/e2e/prompts.jsonl --out peers.json

decode, prefill: `llama-bench` (tg128, pp512) beside `paceline bench decode` and `prefill`, both without a server; OpenVINO GenAI by its
own counters (openvino_bench.py), where it is installed and loads the file.
streams: `llama-server` beside the daemon, streamed, by the same client's clock (load.py), greedy, without speculation.
lookup: the same with n-gram speculation, `--spec-type ngram-simple` beside drafter ngram; give it a workload that repeats itself.
"""
import argparse
import datetime
import http.client
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import llama
import load

ROOT = Path(__file__).resolve().parents[2]


def run_ours(args, model, what, tokens):
    flags = ["--prompt-tokens", str(tokens)] if what == "prefill" else ["--tokens", str(tokens), "--prompt-tokens", "8"]
    done = subprocess.run([args.paceline, "bench", what, "--model", model, "--threads", str(args.threads), "--repeats", "1", "--json",
                           *flags], capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise llama.Failed(llama.why(done.returncode, done.stderr))
    return json.loads(done.stdout)["tokens_per_second"]


def our_server(args, model, slots, drafters):
    port = llama.free_port()
    flags = ["--set", f"models.0.context_length={args.context}", "--set", f"models.0.max_running={slots}"]
    return llama.Server([args.paceline, "serve", "--model", model, "--port", port, "--threads", args.threads, *flags], port)


def body_of(args, row, drafter, number):
    """Both servers get the same fields, and ignore those of the other. Neither server may reuse a prompt for the next request."""
    body = {"messages": row["messages"], "max_tokens": args.tokens, "temperature": 0, "seed": 1, "cache_prompt": False,
            "cache_salt": f"{drafter} {number}", "user": f"{drafter} {number}", "speculation": {"drafter": drafter}}
    if drafter != "none":
        body["speculation"]["draft_length"] = args.draft_length
    return body


def in_turn(args, label, sides):
    """Returns {side: [figure of each pair]} for the sides that work, and {side: reason} for the others. `sides` is {name: function of the pair's number}."""
    figures, failures = {name: [] for name in sides}, {}
    for number in range(args.pairs):
        order = list(sides) if number % 2 == 0 else list(reversed(sides))
        for name in order:
            if name in failures:
                continue
            try:
                figures[name].append(sides[name](number))
            except llama.Failed as failure:
                failures[name] = str(failure)
                print(f"{label}: {name}: {failure}", file=sys.stderr)
        print(f"{label} {number + 1}/{args.pairs}: " + ", ".join(f"{n} {figures[n][-1]:.1f}" for n in sides if n not in failures), file=sys.stderr)
    return {name: rates for name, rates in figures.items() if name not in failures}, failures


def interval(ratios):
    """The 95 % interval of the median, from the order of the ratios alone. With fewer than six ratios it is their range."""
    ordered, count = sorted(ratios), len(ratios)
    probability = tail = 0.5**count
    cut = 0
    while tail <= 0.025 and cut < count // 2:
        cut += 1
        probability *= (count - cut + 1) / cut
        tail += probability
    cut = max(0, cut - 1)
    return ordered[cut], ordered[count - 1 - cut]


def judged(args, model, what, figures, failures, **more):
    """Paceline's figure and the fastest of the others."""
    if "ours" not in figures or len(figures) < 2:
        raise SystemExit(f"compare: {what}: nothing to compare: {failures}")
    best = max((n for n in figures if n != "ours"), key=lambda n: statistics.median(figures[n]))
    ratios = [a / b for a, b in zip(figures["ours"], figures[best])]
    low, high = interval(ratios)
    return {"bench": what, "model": Path(model).name, "threads": args.threads, **more, "ours": statistics.median(figures["ours"]),
            "theirs": statistics.median(figures[best]), "build": best, "ratio": statistics.median(ratios), "ratio_min": low,
            "ratio_max": high, "runs": figures, "failures": failures, "command": "bench/peers/compare.py " + " ".join(sys.argv[1:]),
            "date": datetime.date.today().isoformat()}


def openvino(args):
    """The command of OpenVINO GenAI's bench, where it is installed."""
    installed = any(args.peers.glob("lib/python*/site-packages/openvino_genai"))
    return [args.peers / "bin/python", Path(__file__).with_name("openvino_bench.py")] if installed else None


def kernels(args, model, what, tokens, found):
    """A figure compared with llama.cpp's, and with OpenVINO GenAI's if that loads the file."""
    sides = {"ours": lambda _: run_ours(args, model, what, tokens)}
    commands = {name: [programs / "llama-bench", "-r", "1", "-o", "json"] for name, programs in found.items()}
    if other := openvino(args):
        commands["openvino"] = other
    for name, command in commands.items():
        sides[name] = lambda _, command=command: llama.measure(command, model, args.threads, what, tokens)
    figures, failures = in_turn(args, f"{what} {Path(model).stem}", sides)
    beside_openvino = {name: figures.pop(name) for name in ["openvino"] if name in figures}
    results = [judged(args, model, what, figures, failures, peer="llama.cpp", tokens=tokens)]
    if beside_openvino:
        results.append(judged(args, model, what, {"ours": figures["ours"]} | beside_openvino, {}, peer="OpenVINO GenAI", tokens=tokens))
    return results


def streams(args, model, what, together, rows, found):
    """Whole requests a group, by the client's clock."""
    drafter, spec = ("none", []) if what == "streams" else ("ngram", ["--spec-type", "ngram-simple"])
    servers, failures = {"ours": our_server(args, model, together, drafter)}, {}
    try:
        for name, programs in found.items():
            try:
                servers[name] = llama.server(programs, model, args.threads, together, args.context, spec)
            except llama.Failed as failure:
                failures[name] = str(failure)
                print(f"{what}: {name}: {failure}", file=sys.stderr)

        def group(number, server):
            chosen = [rows[(number * together + i) % len(rows)] for i in range(together)]
            bodies = [body_of(args, row, drafter, f"{number}.{i}") for i, row in enumerate(chosen)]
            try:
                return load.together(server.url, bodies)["tokens_per_second"]
            except (load.Broken, OSError, http.client.HTTPException) as failure:
                raise llama.Failed(server.how_it_ended() or str(failure)) from failure

        for name, server in servers.items():
            try:
                group(0, server)  # warms up
            except llama.Failed as failure:
                failures[name] = str(failure)
        sides = {name: lambda number, server=server: group(number, server) for name, server in servers.items() if name not in failures}
        figures, broken = in_turn(args, f"{what} {Path(model).stem} x{together}", sides)
    finally:
        for server in servers.values():
            server.stop()
    return judged(args, model, what, figures, failures | broken, peer="llama.cpp", tokens=args.tokens, together=together, workload=args.workload.stem)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, action="append", dest="models")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--what", nargs="+", default=["decode", "prefill", "streams"], choices=["decode", "prefill", "streams", "lookup"])
    parser.add_argument("--together", type=int, nargs="+", default=[1, 8], help="requests at the same time, of streams and lookup")
    parser.add_argument("--workload", type=Path, default=ROOT / "bench/e2e/prompts.jsonl", help="JSON lines with \"messages\"")
    parser.add_argument("--tokens", type=int, default=128, help="of a reply, and of decode")
    parser.add_argument("--prefill-tokens", type=int, default=512)
    parser.add_argument("--draft-length", type=int, default=8, help="of lookup")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--peers", type=Path, default=ROOT / ".cache/peers", help="folder with llama-*/bin")
    parser.add_argument("--paceline", default=ROOT / "build/release/bin/paceline")
    parser.add_argument("--out", type=Path, help="JSON file that the figures are added to")
    return parser.parse_args()


def main():
    args = arguments()
    found = llama.builds(args.peers)
    if not found:
        raise SystemExit(f"compare: no build of llama.cpp in {args.peers}: run bench/peers/setup.sh")
    rows = [row for row in map(json.loads, args.workload.read_text().splitlines()) if "messages" in row]
    results = []
    for model in args.models:
        for what in args.what:
            if what in ("decode", "prefill"):
                results += kernels(args, model, what, args.tokens if what == "decode" else args.prefill_tokens, found)
            else:
                results += [streams(args, model, what, together, rows, found) for together in args.together]
    print("| model | bench | together | ours, tokens/s | theirs, tokens/s | whose | ratio | 95 % |\n" + "| --- " * 8 + "|")
    for r in results:
        print(f"| {r['model']} | {r['bench']} {r['tokens']} | {r.get('together', 1)} | {r['ours']:.1f} | {r['theirs']:.1f} | {r['peer']} {r['build']} "
              f"| {r['ratio']:.2f} | {r['ratio_min']:.2f} to {r['ratio_max']:.2f} |")
    for r in results:
        for name, failure in r["failures"].items():
            print(f"{r['bench']} {r['model']}: the build {name} failed: {failure}")
    if args.out:
        known = json.loads(args.out.read_text()) if args.out.exists() else []
        args.out.write_text(json.dumps(known + results, indent=1) + "\n")


if __name__ == "__main__":
    main()
