#!/usr/bin/env python3
"""Compares streamed replies with the same replies in one piece, through a real daemon, by the client's clock over whole requests.

    bench/e2e/streams.py --model qwen.gguf --workload code_edit.jsonl --workload code.jsonl --out streams.json

Every group of prompts runs with every drafter over HTTP in one piece, over HTTP streamed and over the WebSocket, consecutively in
rotating order (`paceline bench serve`). Each line of the table is the median of the groups' ratios with its 95 % interval, and the
bound. A second, shorter run requests the trace and compares the number of rounds that committed tokens with the number of
events with tokens that reached the client: there must be one per round. The time from a commit to the client ends when the client has
read the event, so it is longer than the way to the socket.

The way to the socket alone is measured by the daemon: clients in this process stream the same prompts over HTTP, and
`paceline_commit_to_write_seconds` is read from /metrics before and after. Its line has the share of events that were written
within a number of ms. Ends with 1 if a line misses its bound.
"""
import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path

import bench_daemon

BOUND = 0.97
MOST_SECONDS = 0.005  # from the end of the program that commits a round to the client, 99th percentile
HISTOGRAM = "paceline_commit_to_write_seconds_bucket{"
TOLD = (0.001, 0.002, 0.005, 0.0075, 0.01)  # bounds of buckets
HERE = Path(__file__).parent


def bench(arguments, workload, together, *flags):
    command = [arguments.bin, "bench", "serve", "--model", arguments.model, "--threads", arguments.threads, "--workload", workload,
               "--concurrency", together, "--drafters", arguments.drafters, "--through", "http,websocket", "--max-tokens",
               arguments.tokens, "--temperature", arguments.temperature, "--seed", arguments.seed, "--json", *flags]
    if arguments.chat_template:
        command += ["--chat-template", arguments.chat_template]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"streams: {done.stderr}")
    return json.loads(done.stdout)


def lines_of(timed, traced):
    """One for each drafter and streamed door."""
    whole = {d["drafter"]: d for d in timed["drafters"] if d["through"] == "unstreamed"}
    counts = {(d["drafter"], d["through"]): (d["events"], d["rounds"]) for d in traced["drafters"]}
    for arm in timed["drafters"]:
        if arm["through"] == "unstreamed":
            continue
        ratio = arm["of_unstreamed"]
        events, rounds = counts[arm["drafter"], arm["through"]]
        late = arm["commit_to_client_p99"]
        good = ratio["median"] >= BOUND and events == rounds and late <= MOST_SECONDS and arm["different_texts"] == 0
        yield {"workload": Path(timed["workload"]).stem, "together": timed["concurrency"], "drafter": arm["drafter"], "through": arm["through"],
               "unstreamed": whole[arm["drafter"]]["tokens_per_second"]["median"], "streamed": arm["tokens_per_second"]["median"],
               "ratio": ratio["median"], "interval95": ratio["interval95"], "pairs": ratio["runs"], "events": events, "rounds": rounds, "commit_to_client_p99": late,
               "different_texts": arm["different_texts"], "verdict": "pass" if good else "short"}


def row(line):
    low, high = line["interval95"]
    return (f"| {line['workload']} | {line['together']} | {line['drafter']} | {line['through']} | {line['unstreamed']:.1f} | {line['streamed']:.1f} "
            f"| {line['ratio']:.3f} ({low:.3f} to {high:.3f}) | {line['pairs']} | {line['events']} / {line['rounds']} "
            f"| {1e3 * line['commit_to_client_p99']:.1f} | {line['different_texts']} | {line['verdict']} |")


def buckets(url):
    """Events written up to each bound, in seconds, and all of them ("+Inf")."""
    with urllib.request.urlopen(url + "/metrics", timeout=60) as reply:
        lines = reply.read().decode().splitlines()
    found = {}
    for line in lines:
        if line.startswith(HISTOGRAM):
            bound = line.split('le="')[1].split('"')[0]
            found[float(bound)] = found.get(float(bound), 0) + int(float(line.rpartition(" ")[2]))
    return found


def written(before, after):
    """The events between two readings: the share of them up to each bound, and whether the 99th percentile meets its bound."""
    counts = {bound: after[bound] - before.get(bound, 0) for bound in after}
    events = counts[float("inf")]
    shares = {f"{1e3 * bound:g} ms": counts[bound] / max(1, events) for bound in TOLD}
    return {"events": events, "shares": shares, "verdict": "pass" if events > 0 and counts[MOST_SECONDS] >= 0.99 * events else "short"}


def stream(url, body, failures):
    try:
        request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            if not reply.read().rstrip().endswith(b"data: [DONE]"):
                failures.append("a stream without an end")
    except urllib.error.HTTPError as refusal:
        failures.append(f"{refusal.code} {refusal.read()[:300]!r}")
    except Exception as failure:  # the waiting thread reports it
        failures.append(str(failure))


def commit_to_socket(arguments, workload, together):
    """One line for each drafter, each with its own daemon."""
    rows = [row for row in map(json.loads, Path(workload).read_text().splitlines()) if "messages" in row]
    num_requests, salts = together * arguments.pairs, itertools.count()
    for asked in arguments.drafters.split(","):
        name, _, length = asked.partition("/")
        speculation = {"drafter": name} | ({"draft_length": int(length)} if length else {})
        model = {"name": "model", "max_running": together}
        model |= {"kind": "hash"} if arguments.model == "hash" else {"path": str(Path(arguments.model).resolve())}
        if arguments.chat_template:
            model["chat_template"] = str(Path(arguments.chat_template).resolve())
        kinds = {"none": [], "auto": ["ngram", "suffix"]}.get(name, [name])  # as in `paceline bench serve`
        model["drafters"] = [{"name": kind, "kind": kind} for kind in kinds]
        config = {"version": 1, "server": {"port": 0}, "engine": {"threads": arguments.threads} if arguments.threads else {}, "models": [model]}
        with tempfile.TemporaryDirectory() as folder:
            process, port = bench_daemon.start(arguments.bin, config, folder)
            try:
                url, failures = f"http://{bench_daemon.HOST}:{port}", []
                before = buckets(url)
                bodies = [{"messages": rows[n % len(rows)]["messages"], "max_tokens": arguments.tokens, "temperature": arguments.temperature,
                           "seed": arguments.seed, "stream": True, "speculation": speculation, "cache_salt": f"streams {next(salts)}"}
                          for n in range(num_requests)]
                for first in range(0, num_requests, together):
                    clients = [threading.Thread(target=stream, args=(url, body, failures)) for body in bodies[first:first + together]]
                    for client in clients:
                        client.start()
                    for client in clients:
                        client.join()
                if failures:
                    raise SystemExit(f"streams: {failures[0]}")
                found = written(before, buckets(url))
            finally:
                bench_daemon.stop(process)
        yield {"workload": Path(workload).stem, "together": together, "drafter": asked, "through": "http"} | found


def written_row(line):
    shares = " | ".join(f"{100 * share:.1f} %" for share in line["shares"].values())
    return f"| {line['workload']} | {line['together']} | {line['drafter']} | {line['events']} | {shares} | {line['verdict']} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=HERE.parents[1] / "build/release/bin/paceline")
    parser.add_argument("--model", required=True)
    parser.add_argument("--chat-template", help="file that replaces the model's own")
    parser.add_argument("--workload", type=Path, action="append", help="JSON lines with \"messages\"; several. Default: prompts.jsonl")
    parser.add_argument("--together", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--drafters", default="auto,ngram/8")
    parser.add_argument("--pairs", type=int, default=12, help="groups of prompts")
    parser.add_argument("--traced-pairs", type=int, default=2, help="groups of the run that counts rounds")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON of all lines and of the benches' own reports")
    arguments = parser.parse_args()
    print("| workload | together | drafter | through | in one piece, tokens/s | streamed | streamed / in one piece (95 %) | pairs "
          "| events / rounds | commit to client, p99, ms | other texts | |\n" + "| --- " * 12 + "|")
    lines, reports, sockets = [], [], []
    for workload in arguments.workload or [HERE / "prompts.jsonl"]:
        for together in arguments.together:
            timed = bench(arguments, workload, together, "--unstreamed", "--pairs", arguments.pairs)
            traced = bench(arguments, workload, together, "--trace", "--pairs", arguments.traced_pairs)
            reports.append({"timed": timed, "traced": traced})
            for line in lines_of(timed, traced):
                lines.append(line)
                print(row(line), flush=True)
    print("\n| from commit to socket | together | drafter | events | " + " | ".join(f"up to {1e3 * bound:g} ms" for bound in TOLD)
          + " | |\n" + "| --- " * (5 + len(TOLD)) + "|")
    for workload in arguments.workload or [HERE / "prompts.jsonl"]:
        for together in arguments.together:
            for line in commit_to_socket(arguments, workload, together):
                sockets.append(line)
                print(written_row(line), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps({"bound": BOUND, "lines": lines, "commit_to_socket": sockets, "reports": reports}, indent=1) + "\n")
    return int(any(line["verdict"] == "short" for line in lines + sockets))


if __name__ == "__main__":
    sys.exit(main())
