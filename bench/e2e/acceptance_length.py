#!/usr/bin/env python3
"""Acceptance length (tokens committed a round) of drafters on workloads, through HTTP, greedy, by the rounds in the trace. No clock is involved.

    bench/e2e/acceptance_length.py --model qwen.gguf --workload mt_bench.jsonl --workload math_reasoning.jsonl \\
        --drafter '{"name": "ngram", "kind": "ngram", "draft_length": 4}' \\
        --drafter '{"name": "lookahead", "kind": "lookahead", "draft_length": 4, "lookahead_window": 15, "lookahead_ngram": 5, "lookahead_guesses": 15}'
"""
import argparse
import json
import pathlib
import tempfile
import urllib.request

import bench_daemon


def rounds_and_tokens(port, messages, drafter, salt, tokens):
    body = {"messages": messages, "max_tokens": tokens, "temperature": 0, "cache_salt": salt, "return_token_ids": True,
            "speculation": {"drafter": drafter}, "paceline": {"trace": True}}
    request = urllib.request.Request(f"http://{bench_daemon.HOST}:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as reply:
        choice = json.load(reply)["choices"][0]
    return len(choice["paceline"]["rounds"]), len(choice["token_ids"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin/paceline")
    parser.add_argument("--model", required=True)
    parser.add_argument("--workload", action="append", type=pathlib.Path, required=True, help="JSON lines with `messages`")
    parser.add_argument("--drafter", action="append", type=json.loads, required=True, help="its options, as JSON")
    parser.add_argument("--prompts", type=int, default=10, help="of each workload")
    parser.add_argument("--tokens", type=int, default=96)
    arguments = parser.parse_args()
    model = {"path": str(pathlib.Path(arguments.model).resolve()), "drafters": arguments.drafter}
    with tempfile.TemporaryDirectory() as folder:
        process, port = bench_daemon.start(arguments.bin, {"version": 1, "server": {"port": 0}, "models": [model]}, folder)
        try:
            for workload in arguments.workload:
                lines = [json.loads(line) for line in workload.read_text().splitlines()[:arguments.prompts]]
                for name in (drafter["name"] for drafter in arguments.drafter):
                    sums = [rounds_and_tokens(port, line["messages"], name, f"{name}/{n}", arguments.tokens) for n, line in enumerate(lines)]
                    rounds, tokens = (sum(values) for values in zip(*sums))
                    print(f"{workload.stem} {name}: {tokens} tokens, {rounds} rounds, acceptance length {tokens / rounds:.3f}", flush=True)
        finally:
            bench_daemon.stop(process)


if __name__ == "__main__":
    main()
