#!/usr/bin/env python3
"""The gaps between events of running streams while a long prompt arrives, by the client's clock.

  gaps.py --bin build/release/bin/paceline --model qwen.gguf --workload code.jsonl --streams 1 3 7 --arrivals 12

Each client streams one chat reply after the other (SSE), each reply with its own `cache_salt`. A long prompt arrives repeatedly, with
a salt of its own. From its first byte to its first token, every gap between two events of a stream counts, including the one that
was open when it arrived. For comparison: gaps when nothing arrives. The bound is `max_gap` of the
configuration, for the 99th percentile. Prints a table and, with --out, writes JSON; ends with 1 if the bound is missed.
"""

import argparse
import http.client
import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import bench_daemon

salts = itertools.count()


def events(door, body):
    """The time of each event with text of one streamed reply."""
    connection = http.client.HTTPConnection(*door, timeout=600)
    payload = json.dumps(body | {"stream": True, "temperature": 0, "cache_salt": f"gaps {next(salts)}"})
    connection.request("POST", "/v1/chat/completions", payload, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if reply.status != 200:
        raise SystemExit(f"gaps: {reply.status} {reply.read()[:300]!r}")
    for line in reply:
        if line.startswith(b"data: {") and json.loads(line[6:])["choices"]:
            yield time.perf_counter()
    connection.close()


class Stream(threading.Thread):
    """Replies one after the other, until stopped. `times`: (reply, time) of their events."""

    def __init__(self, door, rows, tokens):
        super().__init__(daemon=True)
        self.door, self.rows, self.tokens = door, rows, tokens
        self.times, self.stopping = [], threading.Event()

    def run(self):
        for number in itertools.count():
            # Ids, too: after an ignored end token there are tokens without text, which have no other event.
            body = {"messages": self.rows[number % len(self.rows)]["messages"], "max_tokens": self.tokens, "ignore_eos": True,
                    "return_token_ids": True}
            for now in events(self.door, body):
                self.times.append((number, now))
                if self.stopping.is_set():
                    return

    def gaps(self, begin, end):
        """Gaps between consecutive events of a reply that overlap the window."""
        known = list(self.times)
        return [b - a for (one, a), (other, b) in zip(known, known[1:]) if one == other and b > begin and a < end]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def long_prompt(rows, num_tokens):
    """Texts of the workload with about this many tokens, at four characters each."""
    text = "\n".join(message["content"] for row in itertools.islice(itertools.cycle(rows), 4096) for message in row["messages"]
                     if isinstance(message["content"], str))
    return text[:4 * num_tokens]


def measure(arguments, door, rows, num_streams):
    streams = [Stream(door, rows[i::num_streams] or rows, arguments.tokens) for i in range(num_streams)]
    for stream in streams:
        stream.start()
    deadline = time.monotonic() + 120
    while any(len(stream.times) < 4 for stream in streams):
        if time.monotonic() > deadline:
            raise SystemExit("gaps: the streams did not begin")
        time.sleep(0.05)
    prompt = [{"role": "user", "content": long_prompt(rows, arguments.prompt_tokens)}]
    during, alone, prefills = [], [], []
    for _ in range(arguments.arrivals):
        begin = time.perf_counter()
        first = next(events(door, {"messages": prompt, "max_tokens": 1}))
        prefills.append(first - begin)
        during += [gap for stream in streams for gap in stream.gaps(begin, first)]
        time.sleep(arguments.pause)
        alone += [gap for stream in streams for gap in stream.gaps(first + 0.2, time.perf_counter())]
    for stream in streams:
        stream.stopping.set()
    for stream in streams:
        stream.join()
    return {"streams": num_streams, "arrivals": arguments.arrivals, "prompt_seconds": statistics.median(prefills), "gaps": len(during),
            "median": statistics.median(during), "p99": percentile(during, 0.99), "longest": max(during),
            "without_arrival": {"gaps": len(alone), "median": statistics.median(alone), "p99": percentile(alone, 0.99)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin/paceline")
    parser.add_argument("--model", required=True, help="file, or \"hash\"")
    parser.add_argument("--chat-template", type=lambda text: str(Path(text).resolve()), default=None, help="file that replaces the model's own")
    parser.add_argument("--workload", type=Path, required=True, help="JSON lines with \"messages\"")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 3, 7])
    parser.add_argument("--arrivals", type=int, default=12)
    parser.add_argument("--prompt-tokens", type=int, default=4000, help="about so many, at four characters each")
    parser.add_argument("--tokens", type=int, default=1024, help="of the replies that run")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between arrivals")
    parser.add_argument("--max-gap", type=float, default=0.2, help="seconds: scheduling.max_gap")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = [row for row in map(json.loads, arguments.workload.read_text().splitlines()) if "messages" in row]
    model = {"kind": "hash"} if arguments.model == "hash" else {"path": str(Path(arguments.model).resolve())}
    config = {"version": 1, "server": {"port": 0}, "engine": {"threads": arguments.threads},
              "models": [{"name": "model", "context_length": 8192, "chat_template": arguments.chat_template or ""} | model]}
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for num_streams in arguments.streams:
            process, port = bench_daemon.start(arguments.bin, config, folder)
            try:
                lines.append(measure(arguments, (bench_daemon.HOST, port), rows, num_streams))
            finally:
                bench_daemon.stop(process)
            li = lines[-1]
            print(f"{num_streams} streams: {li['gaps']} gaps in {li['arrivals']} prompts of {li['prompt_seconds']:.1f} s: median {1e3 * li['median']:.0f} ms, "
                  f"99th percentile {1e3 * li['p99']:.0f}, longest {1e3 * li['longest']:.0f}; without an arrival "
                  f"{1e3 * li['without_arrival']['median']:.0f} and {1e3 * li['without_arrival']['p99']:.0f}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps({"max_gap": arguments.max_gap, "lines": lines}, indent=1) + "\n")
    return int(any(line["p99"] > arguments.max_gap for line in lines))


if __name__ == "__main__":
    sys.exit(main())
