#!/usr/bin/env python3
"""Response times of a busy server for other clients, by the client's clock: /livez, and a small request to a second model.

    bench/e2e/busy_edge.py --model qwen.gguf --seconds 60

One daemon with a real model, whose scheduler stalls for 250 ms whenever it requests a lease (build/release/bin/stalling_daemon; --bin
takes another program, such as `paceline serve`), and with the hash model. During the measurement the real model streams a reply,
/metrics is scraped 20 times a second, and twelve prompts of 7 MiB are sent to it, each again when it is refused. Meanwhile one
connection requests /livez every 10 ms, and another one two tokens of the hash model every 50 ms. Prints both
distributions and, with --out, writes JSON; ends with 1 if a 99th percentile misses its bound.
"""

import argparse
import http.client
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import bench_daemon

MIB = 1 << 20
BOUNDS = {"/livez": 0.05, "small request": 1.0}  # seconds, 99th percentile
LARGE = json.dumps({"model": "busy", "prompt": "lorem ipsum dolor " * (7 * MIB // 18), "max_tokens": 1}).encode()
STREAM = json.dumps({"model": "busy", "prompt": "Once", "max_tokens": 16, "ignore_eos": True, "stream": True}).encode()
SMALL = json.dumps({"model": "small", "prompt": "x", "max_tokens": 2}).encode()


class Client(threading.Thread):
    """Repeats a request every `interval` seconds, or when it has the answer if that is later; records each time and status."""

    def __init__(self, door, method, path, body, interval, until):
        super().__init__(daemon=True)
        self.door, self.method, self.path, self.body, self.interval, self.until = door, method, path, body, interval, until
        self.seconds, self.statuses = [], set()

    def run(self):
        while (begin := time.monotonic()) < self.until:
            connection = http.client.HTTPConnection(*self.door, timeout=120)
            connection.request(self.method, self.path, self.body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            while reply.read(MIB):
                pass
            connection.close()
            took = time.monotonic() - begin
            self.seconds.append(took)
            self.statuses.add(reply.status)
            time.sleep(max(0.0, self.interval - took))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", nargs="+", default=["build/release/bin/stalling_daemon"], help="command that takes --config")
    parser.add_argument("--model", required=True, help="file, or \"hash\"")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--prompts", type=int, default=12, help="of 7 MiB, at the same time")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    busy = {"kind": "hash"} if arguments.model == "hash" else {"path": str(Path(arguments.model).resolve())}
    config = {"version": 1, "server": {"port": 0}, "engine": {"threads": arguments.threads}, "logging": {"level": "error"},
              "models": [{"name": "busy"} | busy, {"name": "small", "kind": "hash", "context_length": 4096}]}
    with tempfile.TemporaryDirectory() as folder:
        process, port = bench_daemon.start_command(arguments.bin, config, folder, ["busy"] if "stalling" in arguments.bin[0] else [])
        door, until = (bench_daemon.HOST, port), time.monotonic() + arguments.seconds
        load = [Client(door, "POST", "/v1/completions", LARGE, 0, until) for _ in range(arguments.prompts)]
        load += [Client(door, "POST", "/v1/completions", STREAM, 0, until), Client(door, "GET", "/metrics", None, 0.05, until)]
        seen = {"/livez": Client(door, "GET", "/livez", None, 0.01, until), "small request": Client(door, "POST", "/v1/completions", SMALL, 0.05, until)}
        for client in (*load, *seen.values()):
            client.start()
        for client in (*load, *seen.values()):
            client.join()
        bench_daemon.stop(process)
    lines = []
    print(f"{sum(len(c.seconds) for c in load[:arguments.prompts])} prompts of 7 MiB (status {load[0].statuses}), {len(load[-1].seconds)} scrapes, "
          f"{len(load[-2].seconds)} streams in {arguments.seconds:.0f} s")
    for name, client in seen.items():
        ordered = sorted(client.seconds)
        p99 = ordered[int(0.99 * (len(ordered) - 1))]
        good = p99 <= BOUNDS[name] and client.statuses == {200}
        lines.append({"what": name, "asked": len(ordered), "median": ordered[len(ordered) // 2], "p99": p99, "bound": BOUNDS[name],
                      "longest": ordered[-1], "statuses": sorted(client.statuses), "verdict": "pass" if good else "short"})
        print(f"{name}: {len(ordered)} times, median {1e3 * ordered[len(ordered) // 2]:.1f} ms, 99th percentile {1e3 * p99:.1f} ms "
              f"(bound {1e3 * BOUNDS[name]:.0f}), longest {1e3 * ordered[-1]:.1f} ms, status {client.statuses}")
    if arguments.out:
        load_seen = {"prompts": sum(len(c.seconds) for c in load[:arguments.prompts]), "streams": len(load[-2].seconds), "scrapes": len(load[-1].seconds)}
        arguments.out.write_text(json.dumps({"seconds": arguments.seconds, "load": load_seen, "lines": lines}, indent=1) + "\n")
    return int(any(line["verdict"] == "short" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
