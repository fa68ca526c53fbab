#!/usr/bin/env python3
"""How two models of one daemon share one set of cores, each with a drafter that computes.

  two_models.py --bin build/release/bin/paceline --first qwen.gguf --second smollm2.gguf --pairs 12

A client per model streams one chat reply after the other (SSE), each with its own `cache_salt`. In turn the first model is
busy alone, both are, and the second one alone, for a window of so many seconds each; a window begins when all its streams
have begun. Speeds are tokens per second by the client's clock, prompts and pauses between requests included; device time
is what /metrics says that each model's target and drafter computed. Prints JSON, and writes it with --out: of each pair the share of its lone speed
that a model has beside the other (both lone windows are of the same pair), the share of the device's time, and medians. Ends with 1 if a
model has less than 0.42 of its lone speed, not 45 to 55 % of the device's time, or drafts that never run.
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
import urllib.request
from pathlib import Path

import bench_daemon

NAMES = ("first", "second")
LEAST_SPEED, SHARES = 0.42, (0.45, 0.55)
SHORT_KINDS = ("qa", "math_reasoning", "mt_bench", "code", "code_edit")


def start_daemon(arguments, folder):
    """The running daemon and the host and port of its door."""
    models = []
    for name, path, drafter in zip(NAMES, (arguments.first, arguments.second), (arguments.first_drafter, arguments.second_drafter)):
        own = {"name": "own", "kind": "self", "draft_length": arguments.draft_length}
        if drafter != "self":
            own |= {"kind": "model", "path": str(Path(drafter).resolve())}
        models.append({"name": name, "path": str(path), "context_length": 4096, "max_running": 2, "default_drafter": "own", "drafters": [own]})
    config = {"version": 1, "models": models, "server": {"port": 0}, "engine": {"threads": arguments.threads}}
    process, port = bench_daemon.start(arguments.bin, config, folder)
    return process, f"{bench_daemon.HOST}:{port}"


def busy_seconds(door: str) -> dict:
    """Device time of each model's target and drafter so far."""
    families = {"paceline_target_busy_seconds_total": "target", "paceline_draft_busy_seconds_total": "draft"}
    busy = {name: {"target": 0.0, "draft": 0.0} for name in NAMES}
    with urllib.request.urlopen(f"http://{door}/metrics", timeout=60) as reply:
        for line in reply.read().decode().splitlines():
            head, _, value = line.rpartition(" ")
            family, _, labels = head.partition("{")
            for name in NAMES:
                if family in families and f'model="{name}"' in labels:
                    busy[name][families[family]] += float(value)
    return busy


class Client(threading.Thread):
    """Streams replies of one model until it is stopped, and counts their tokens as they arrive."""

    salts = itertools.count()

    def __init__(self, door: str, model: str, prompts: list, tokens: int, drafter: str):
        super().__init__(daemon=True)
        self.door, self.model, self.prompts, self.max_tokens, self.drafter = door, model, prompts, tokens, drafter
        self.num_tokens = 0
        self.begun, self.stopping = threading.Event(), threading.Event()
        self.failure = None

    def run(self):
        try:
            while not self.stopping.is_set():
                self.stream_reply()
        except Exception as failure:  # the window that waits for this thread must see the failure
            self.failure = failure
            self.begun.set()

    def stream_reply(self):
        salt = next(self.salts)
        body = {
            "model": self.model,
            "messages": self.prompts[salt % len(self.prompts)]["messages"],
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "cache_salt": f"two-models-{salt}",
            "speculation": {"drafter": self.drafter},
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        connection = http.client.HTTPConnection(self.door, timeout=600)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            raise RuntimeError(f"{self.model}: {reply.status} {reply.read().decode()}")
        before = 0
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(f"{self.model}: {event['error']}")
            now = (event.get("usage") or {}).get("completion_tokens", before)
            self.num_tokens += now - before
            before = now
            if before > 0:
                self.begun.set()
            if self.stopping.is_set():
                break
        connection.close()


def window(door: str, models: list, prompts: list, seconds: float, arguments) -> dict:
    """Speed and device time of each of `models`, all busy at once."""
    clients = [Client(door, model, prompts, arguments.tokens, arguments.drafter) for model in models]
    for client in clients:
        client.start()
    for client in clients:
        client.begun.wait()
    before, tokens_before, begin = busy_seconds(door), [c.num_tokens for c in clients], time.monotonic()
    time.sleep(seconds)
    tokens_after, passed = [c.num_tokens for c in clients], time.monotonic() - begin
    after = busy_seconds(door)
    for client in clients:
        client.stopping.set()
    for client in clients:
        client.join()
        if client.failure:
            raise SystemExit(f"two_models: {client.failure}")
    return {
        model: {
            "tokens_per_second": (b - a) / passed,
            "target_seconds": after[model]["target"] - before[model]["target"],
            "draft_seconds": after[model]["draft"] - before[model]["draft"],
        }
        for model, a, b in zip(models, tokens_before, tokens_after)
    }


def compare(alone: dict, shared: dict) -> dict:
    device = {name: shared[name]["target_seconds"] + shared[name]["draft_seconds"] for name in NAMES}
    return {
        name: {
            "lone_tokens_per_second": round(alone[name]["tokens_per_second"], 2),
            "shared_tokens_per_second": round(shared[name]["tokens_per_second"], 2),
            "of_lone_speed": round(shared[name]["tokens_per_second"] / alone[name]["tokens_per_second"], 3),
            "device_share": round(device[name] / sum(device.values()), 3),
            "target_seconds": round(shared[name]["target_seconds"], 2),
            "draft_seconds": round(shared[name]["draft_seconds"], 2),
        }
        for name in NAMES
    }


def missed(medians: dict, drafts: bool) -> list:
    """Says which figures are below their bounds."""
    out = []
    for name, model in medians.items():
        if model["of_lone_speed"] < LEAST_SPEED:
            out.append(f"{name} has {model['of_lone_speed']} of its lone speed")
        if not SHARES[0] <= model["device_share"] <= SHARES[1]:
            out.append(f"{name} has {model['device_share']} of the device's time")
        if drafts and model["draft_seconds"] == 0:
            out.append(f"the drafts of {name} never run")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin/paceline")
    parser.add_argument("--first", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--second", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--first-drafter", default="self", metavar="self|FILE", help="half of the model's layers, or a drafting model")
    parser.add_argument("--second-drafter", default="self", metavar="self|FILE")
    parser.add_argument("--drafter", default="own", choices=["own", "none"], help="what requests ask for")
    parser.add_argument("--prompts", type=Path, default=Path(__file__).parent / "prompts.jsonl")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--draft-length", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=256, help="of a reply")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=8, help="of a lone window; a shared one is twice as long")
    parser.add_argument("--out", type=Path, help="file for the JSON too")
    arguments = parser.parse_args()

    prompts = [json.loads(line) for line in arguments.prompts.read_text().splitlines()]
    prompts = [prompt for prompt in prompts if prompt["kind"] in SHORT_KINDS]
    pairs, load_before = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        process, door = start_daemon(arguments, folder)
        try:
            window(door, NAMES, prompts, 1, arguments)  # warms up
            for number in range(arguments.pairs):
                first = window(door, ["first"], prompts, arguments.seconds, arguments)
                shared = window(door, NAMES, prompts, 2 * arguments.seconds, arguments)
                second = window(door, ["second"], prompts, arguments.seconds, arguments)
                pairs.append(compare(first | second, shared))
                print(f"pair {number + 1}: {json.dumps(pairs[-1])}", file=sys.stderr)
        finally:
            bench_daemon.stop(process)

    medians = {
        name: {key: round(statistics.median(pair[name][key] for pair in pairs), 3) for key in pairs[0][name]} for name in NAMES
    }
    short = missed(medians, arguments.drafter == "own")
    report = json.dumps({"bench": "two_models", "verdict": "short" if short else "pass", "missed": short, "models": [arguments.first.name, arguments.second.name],
                      "drafters": [Path(arguments.first_drafter).name, Path(arguments.second_drafter).name] if arguments.drafter == "own" else "none",
                      "threads": arguments.threads, "draft_length": arguments.draft_length, "tokens": arguments.tokens, "seconds": arguments.seconds,
                      "load": (load_before, os.getloadavg()[0]), "medians": medians, "pairs": pairs})  # fmt: skip
    print(report)
    if arguments.out:
        arguments.out.write_text(report + "\n")
    return int(bool(short))


if __name__ == "__main__":
    sys.exit(main())
