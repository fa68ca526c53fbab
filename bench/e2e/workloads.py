#!/usr/bin/env python3
"""Speed and acceptance of drafters on prompts of several kinds, through the daemon.

  workloads.py --bin build/release/bin/paceline --model smollm2.gguf --drafter layers=smollm2-12-layers.gguf

Every prompt is answered with plain decoding, with n-gram lookup and with each drafter, consecutively, so that other load affects
all alike; the speed-up is the median over prompts of such pairs. The answers must be the same text. Prompts
are JSON lines {id, kind, messages}; prompts.jsonl holds two of each kind, taken from HumanEval (MIT) and Spec-Bench
(Apache-2.0).
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import urllib.request
from pathlib import Path

import bench_daemon


def start_daemon(arguments, folder):
    """The running daemon and its address."""
    drafters = [{"name": "ngram", "kind": "ngram", "draft_length": arguments.draft_length}]
    for name, path in arguments.drafter:
        drafters.append({"name": name, "kind": "model", "path": str(path), "draft_length": arguments.draft_length})
    config = {
        "version": 1,
        "models": [{"name": "target", "path": str(arguments.model), "context_length": 4096, "max_running": 1, "drafters": drafters}],
        "server": {"port": 0},
        "engine": {"threads": arguments.threads, "prefix_cache": False},
    }
    process, port = bench_daemon.start(arguments.bin, config, folder)
    return process, f"http://{bench_daemon.HOST}:{port}"


def answer(url: str, prompt: dict, drafter: str, arguments) -> dict:
    body = {
        "model": "target",
        "messages": prompt["messages"],
        "max_tokens": arguments.tokens,
        "temperature": arguments.temperature,
        "seed": 1,
        "ignore_eos": True,
        "speculation": {"drafter": drafter},
    }
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as reply:
        whole = json.load(reply)
    figures = whole["metrics"].get("speculative_decoding") or {}
    return {
        "text": whole["choices"][0]["message"]["content"],
        "seconds": whole["timings"]["predicted_ms"] / 1000,
        "tokens": whole["usage"]["completion_tokens"] - 1,  # the first one comes with the prompt
        "drafted": figures.get("num_draft_tokens", 0),
        "accepted": figures.get("num_accepted_draft_tokens", 0),
        "rounds": figures.get("num_spec_steps", 0),
    }


def summary(answers: list, plain: list) -> dict:
    drafted, accepted, rounds = (sum(a[key] for a in answers) for key in ("drafted", "accepted", "rounds"))
    ratios = [p["seconds"] / a["seconds"] for a, p in zip(answers, plain)]
    return {
        "tokens_per_second": statistics.median(a["tokens"] / a["seconds"] for a in answers),
        "speed_up": statistics.median(ratios),
        "acceptance_rate": accepted / drafted if drafted else None,
        "acceptance_length": 1 + accepted / rounds if rounds else None,
    }


def print_table(results: dict) -> None:
    print("| kind | drafter | tokens/s | against plain | accepted of drafted | committed a drafted round |\n|---|---|---|---|---|---|")
    for (kind, drafter), s in results.items():
        rate = "" if s["acceptance_rate"] is None else f"{100 * s['acceptance_rate']:.0f} %"
        length = "" if s["acceptance_length"] is None else f"{s['acceptance_length']:.2f}"
        print(f"| {kind} | {drafter} | {s['tokens_per_second']:.1f} | {s['speed_up']:.2f} | {rate} | {length} |")


def named_path(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    return name, Path(path).resolve()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin/paceline")
    parser.add_argument("--model", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--drafter", type=named_path, action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--prompts", type=Path, default=Path(__file__).parent / "prompts.jsonl")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--draft-length", type=int, default=4)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    prompts = [json.loads(line) for line in arguments.prompts.read_text().splitlines()]
    drafters = ["none", "ngram"] + [name for name, _ in arguments.drafter]
    answers = {drafter: [] for drafter in drafters}
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        process, url = start_daemon(arguments, folder)
        try:
            answer(url, prompts[0], "none", arguments)  # warms up
            for prompt in prompts:
                for drafter in drafters:
                    got = answer(url, prompt, drafter, arguments)
                    answers[drafter].append(got)
                    if got["text"] != answers["none"][-1]["text"]:
                        raise SystemExit(f"workloads: {prompt['id']}: {drafter} gives another text than plain decoding")
                print(f"{prompt['id']} done", file=sys.stderr)
        finally:
            bench_daemon.stop(process)

    results = {}
    for kind in ["all", *dict.fromkeys(prompt["kind"] for prompt in prompts)]:
        chosen = [i for i, prompt in enumerate(prompts) if kind in ("all", prompt["kind"])]
        for drafter in drafters:
            results[kind, drafter] = summary([answers[drafter][i] for i in chosen], [answers["none"][i] for i in chosen])
    load = (load_before, os.getloadavg()[0])
    if arguments.json:
        rows = [{"kind": kind, "drafter": drafter} | s for (kind, drafter), s in results.items()]
        print(json.dumps({"bench": "workloads", "model": arguments.model.name, "threads": arguments.threads, "load": load,
                          "tokens": arguments.tokens, "draft_length": arguments.draft_length, "rows": rows}))  # fmt: skip
    else:
        print(f"{arguments.model.name}, {arguments.threads} threads, {arguments.tokens} tokens a prompt, draft length "
              f"{arguments.draft_length}, load {load[0]:.1f} to {load[1]:.1f}\n")  # fmt: skip
        print_table(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
