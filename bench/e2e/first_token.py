#!/usr/bin/env python3
"""How much a drafter that reads the prompt too delays the first token, by the client's clock.

    bench/e2e/first_token.py --model qwen.gguf --drafter '{"name": "head", "kind": "eagle3", "path": "eagle3/"}' --workload summarization.jsonl

Each group sends one prompt once without a drafter and once with each drafter, consecutively in turning order, streamed, each under a
salt of its own, so that no cached prefix helps. A drafter's line is the median of the groups' ratios of the time to the first event
with text, with its tenth and ninetieth percentile. `plain again` is a second arm without a drafter: it shows what the machine's noise is.
Ends with 1 if a median is above the bound.
"""
import argparse
import http.client
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import bench_daemon

BOUND = 1.05


def first_token(door, messages, drafter, salt, tokens):
    """Seconds from sending to the first event with text, and the number of tokens of the prompt."""
    body = {"messages": messages, "max_tokens": tokens, "temperature": 0, "stream": True, "stream_options": {"include_usage": True},
            "cache_salt": salt, "ignore_eos": True, "speculation": {"drafter": drafter}}
    connection = http.client.HTTPConnection(*door, timeout=600)
    first, prompt = None, None
    begin = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if reply.status != 200:
        raise SystemExit(f"first_token: {reply.status} {reply.read()[:300]!r}")
    for line in reply:
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            if first is None and event["choices"] and event["choices"][0]["delta"].get("content"):
                first = time.perf_counter() - begin
            prompt = (event.get("usage") or {}).get("prompt_tokens", prompt)
    connection.close()
    return first, prompt


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", default="build/release/bin/paceline")
    options.add_argument("--model", required=True)
    options.add_argument("--chat-template", help="of a model whose file has none")
    options.add_argument("--drafter", action="append", type=json.loads, required=True, help="a drafter as configuration has it, in JSON")
    options.add_argument("--workload", required=True)
    options.add_argument("--groups", type=int, default=24)
    options.add_argument("--tokens", type=int, default=8)
    options.add_argument("--out")
    given = options.parse_args()

    rows = [json.loads(line) for line in Path(given.workload).read_text().splitlines()]
    model = {"name": "it", "path": str(Path(given.model).resolve()), "drafters": given.drafter}
    if given.chat_template:
        model["chat_template"] = given.chat_template
    arms = {"plain": "none", "plain again": "none"} | {drafter["name"]: drafter["name"] for drafter in given.drafter}
    salts = itertools.count()
    times, prompts = {arm: [] for arm in arms}, []
    with tempfile.TemporaryDirectory() as folder:
        process, port = bench_daemon.start(given.bin, {"version": 1, "models": [model], "server": {"port": 0}}, folder)
        try:
            for group in range(-2, given.groups):  # two groups that are not counted: the machine and the daemon warm up
                order = list(arms)[group % len(arms):] + list(arms)[:group % len(arms)]
                for arm in order:
                    messages = rows[group % len(rows)]["messages"]
                    seconds, prompt = first_token((bench_daemon.HOST, port), messages, arms[arm], f"first token {next(salts)}", given.tokens)
                    if group >= 0:
                        times[arm].append(seconds)
                        prompts.append(prompt)
        finally:
            bench_daemon.stop(process)

    print(f"prompts of {min(prompts)} to {max(prompts)} tokens, median {statistics.median(prompts):.0f}; plain: {1e3 * statistics.median(times['plain']):.1f} ms")
    late = False
    for arm in list(arms)[1:]:
        ratios = [a / b for a, b in zip(times[arm], times["plain"])]
        median = statistics.median(ratios)
        late |= median > BOUND
        print(f"{arm}: {median:.3f} ({percentile(ratios, 0.1):.3f} to {percentile(ratios, 0.9):.3f}), bound {BOUND}")
    if given.out:
        Path(given.out).write_text(json.dumps({"times": times, "prompt_tokens": prompts}))
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
