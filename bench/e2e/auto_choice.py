#!/usr/bin/env python3
"""Compares drafter `auto` with fixed settings, streamed over HTTP, one request at a time, default configuration.

    python3 bench/e2e/auto_choice.py --model qwen.gguf --workload code_edit.jsonl --workload mt_bench.jsonl --out auto.json

Each prompt is asked once for every arm, in turn, each arm and temperature under a `cache_salt` of its own: plain decoding twice (their ratio is the
noise), `ngram` at draft lengths 2, 5 and 8, `suffix` at 5, and `auto`. The clock is the client's, over the whole request. The best fixed setting is
chosen on the prompts of odd number for those of even number, and the other way round. Files of several models are pooled with --pool.

    python3 bench/e2e/auto_choice.py --model qwen.gguf --workload code_edit.jsonl --cold auto.json --out cold.json

With --cold every request is the first one of a daemon of its own; asked are plain decoding twice, `auto`, and the best fixed setting of the same workload and
temperature in the file named, chosen there on the prompts of the other parity. --skip leaves out the first prompts of each workload, for example those
on which something was chosen.
"""
import argparse
import http.client
import json
import pathlib
import statistics
import sys
import tempfile
import time

import bench_daemon

ARMS = {"plain": ("none", None), "plain again": ("none", None), "ngram/2": ("ngram", 2), "ngram/5": ("ngram", 5), "ngram/8": ("ngram", 8),
        "suffix/5": ("suffix", 5), "auto": ("auto", None)}
FIXED = [arm for arm in ARMS if arm not in ("auto", "plain again")]


def seconds_of(connection, messages, arm, salt, temperature, tokens):
    """How long the whole streamed request takes, and its text."""
    drafter, length = ARMS[arm]
    speculation = {"drafter": drafter} | ({"draft_length": length} if length else {})
    body = {"messages": messages, "max_tokens": tokens, "temperature": temperature, "seed": 1, "stream": True, "cache_salt": salt,
            "speculation": speculation}
    begin = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    data = reply.read()
    taken = time.perf_counter() - begin
    if reply.status != 200:
        raise SystemExit(f"{arm}: {reply.status} {data[:200]}")
    events = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]
    return taken, "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


class Warm:
    """One daemon for all requests."""

    def __init__(self, arguments, folder):
        self.process, port = bench_daemon.start(arguments.bin, config_of(arguments), folder)
        self.connection = http.client.HTTPConnection(bench_daemon.HOST, port, timeout=600)

    def arms(self, workload, temperature, number):
        return list(ARMS)

    def ask(self, *request):
        return seconds_of(self.connection, *request)

    def stop(self):
        bench_daemon.stop(self.process)


class Cold:
    """A daemon for each request."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.known = json.loads(arguments.cold.read_text())

    def arms(self, workload, temperature, number):
        run = next(r for r in self.known if (r["workload"], r["temperature"], r["model"]) == (workload, temperature, model_of(self.arguments)))
        best = best_for(run["seconds"], number)
        return ["plain", "plain again", "auto"] + [best] * (best != "plain")

    def ask(self, *request):
        warm = Warm(self.arguments, self.folder)
        try:
            return warm.ask(*request)
        finally:
            warm.stop()

    def stop(self):
        pass


def model_of(arguments):
    return pathlib.Path(arguments.model).stem


def config_of(arguments):
    return {"version": 1, "server": {"port": 0}, "models": [{"path": str(pathlib.Path(arguments.model).resolve())}]}


def measure(arguments, served, workload, temperature, tokens):
    there = workload.read_text().splitlines()
    lines = [json.loads(line) for line in there[arguments.skip:arguments.skip + arguments.prompts]]
    if not lines:
        raise SystemExit(f"{workload.stem} has {len(there)} prompts, none of them after the first {arguments.skip}")
    rows = []
    for number, line in enumerate(lines):
        names = served.arms(workload.stem, temperature, number)
        turned = names[number % len(names):] + names[:number % len(names)]
        row, texts = {}, set()
        for arm in turned:
            row[arm], text = served.ask(line["messages"], arm, f"{arm}/{temperature}/{tokens}", temperature, tokens)
            texts.add(text)
        if len(texts) != 1:
            raise SystemExit(f"{workload.stem} {number}: the texts differ")
        rows.append(row)
    return {"workload": workload.stem, "temperature": temperature, "tokens": tokens, "seconds": rows}


def best_for(rows, number):
    """The fixed setting that was fastest on the prompts of the other parity."""
    others = [row for i, row in enumerate(rows) if i % 2 != number % 2]
    return min(FIXED, key=lambda arm: statistics.median(row[arm] / row["plain"] for row in others))


def ratios(run):
    """For each prompt: the best fixed setting over auto, plain over auto, and plain over the second plain run. A cold row has plain and at most one
    fixed setting; earlier files of cold rows have no second plain run."""
    rows = run["seconds"]
    out = {"best": [], "plain": [], "noise": []}
    for number, row in enumerate(rows):
        is_warm = all(arm in row for arm in FIXED)
        best = best_for(rows, number) if is_warm else next((arm for arm in FIXED if arm != "plain" and arm in row), "plain")
        out["best"].append(row[best] / row["auto"])
        out["plain"].append(row["plain"] / row["auto"])
        if "plain again" in row:
            out["noise"].append(row["plain"] / row["plain again"])
    return out


def tell(name, parts):
    def figures(key):
        values = sorted(value for part in parts for value in part[key])
        if not values:
            return " " * 13
        return f"{statistics.median(values):6.3f} {values[len(values) // 10]:6.3f}"
    count = sum(len(part["best"]) for part in parts)
    print(f"{name:<34} {count:>5}  {figures('best')}   {figures('plain')}   {figures('noise')}")


def report(runs):
    print(f"{'':<34} pairs  {'auto/best fixed':<15}  {'auto/plain':<15} {'plain/plain':<14} (median, tenth percentile)")
    for run in runs:
        tell(f"{run['model']} {run['workload']} t={run['temperature']} {run['tokens']}", [ratios(run)])
    for workload in sorted({run["workload"] for run in runs}):
        tell(f"{workload}, pooled", [ratios(run) for run in runs if run["workload"] == workload])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin/paceline")
    parser.add_argument("--model", help="GGUF file")
    parser.add_argument("--workload", action="append", type=pathlib.Path, default=[], help="JSON lines with `messages`")
    parser.add_argument("--prompts", type=int, default=12, help="of each workload")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many first prompts of each workload")
    parser.add_argument("--tokens", type=int, nargs="+", default=[48])
    parser.add_argument("--temperatures", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--cold", type=pathlib.Path, help="a file written before: measure the first requests of daemons")
    parser.add_argument("--pool", type=pathlib.Path, nargs="+", help="only report on files written before")
    arguments = parser.parse_args()
    if arguments.pool:
        return report([run for path in arguments.pool for run in json.loads(path.read_text())])
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        served = Cold(arguments, folder) if arguments.cold else Warm(arguments, folder)
        try:
            for tokens in arguments.tokens:
                for workload in arguments.workload:
                    for temperature in arguments.temperatures:
                        run = measure(arguments, served, workload, temperature, tokens)
                        runs.append({"model": model_of(arguments)} | run)
                        tell(f"{workload.stem} t={temperature} {tokens}", [ratios(run)])
                        sys.stdout.flush()
        finally:
            served.stop()
    report(runs)
    if arguments.out:
        arguments.out.write_text(json.dumps(runs))


if __name__ == "__main__":
    main()
