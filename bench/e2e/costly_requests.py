#!/usr/bin/env python3
"""The cost of the most expensive requests for a daemon: memory above idle, and response times of small requests meanwhile.

    bench/e2e/costly_requests.py build/release/bin/paceline MODEL.gguf [--before OTHER_PROGRAM] [--out costly.json]

Starts the daemon on a free port of this machine for each measurement and prints a table. The bounds are 64 MiB for
one request and 512 MiB for all unread replies; beside prompts of 7 MiB, 1 s for a small request and 50 ms for /livez at the 99th
percentile. Ends with 1 if one of them is exceeded. Linux: reads /proc.
"""
import argparse
import http.client
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import bench_daemon

MIB = 1 << 20
BODY = 8 * MIB - 4096
ZEROS = ",".join("0" * (BODY // 2))


class Daemon:
    def __init__(self, program, model):
        self.folder = tempfile.TemporaryDirectory()
        source = "kind: hash, context_length: 32768" if model == "hash" else f"path: {model}"
        template = pathlib.Path(self.folder.name) / "chat.jinja"
        template.write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
        config = f"version: 1\nmodels: [{{name: m, {source}, chat_template: {template}}}]\nserver: {{port: 0}}\n"
        self.process, self.port = bench_daemon.start(program, config, self.folder.name, stderr=subprocess.DEVNULL)
        self.post("/v1/completions", b'{"prompt":"warm","max_tokens":4}')

    def close(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def status(self, field):
        return bench_daemon.memory(self.process, field) / MIB

    def begin_peak(self):
        self.before = self.status("VmRSS")
        open(f"/proc/{self.process.pid}/clear_refs", "w").write("5")

    def peak(self):
        return self.status("VmHWM") - self.before

    def post(self, path, body):
        """Status and size of the reply, which is read and discarded."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=900)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        size = 0
        while piece := reply.read(MIB):
            size += len(piece)
        connection.close()
        return reply.status, size

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=900)
        connection.request("GET", path)
        status = connection.getresponse().status
        connection.close()
        return status


def prediction():
    return ('{"prompt":"x","max_tokens":16,"n":128,"prediction":{"type":"content","content":[%s]}}' % ZEROS).encode()


def scores(tokens):
    return json.dumps(
        {"messages": [{"role": "user", "content": "x"}], "n": 128, "max_tokens": tokens, "logprobs": True, "top_logprobs": 20, "ignore_eos": True}
    ).encode()


def prompt():
    return ('{"prompt":"%s","max_tokens":1}' % ("lorem ipsum dolor " * (7 * MIB // 18))).encode()


def spaces():
    """One word, for which a vocabulary may have long tokens."""
    return json.dumps({"prompt": " " * BODY, "max_tokens": 1}).encode()


def response(**fields):
    return json.dumps({"input": "x", "top_logprobs": 20, "ignore_eos": True, "max_output_tokens": 30000} | fields).encode()


def echo(tokens=0, choices=1):
    """A long prompt whose reply has the scores of each of its tokens."""
    return json.dumps({"prompt": "lorem ipsum " * 2600, "echo": True, "logprobs": 5, "max_tokens": tokens, "n": choices, "ignore_eos": True}).encode()


def many_prompts(count):
    """A whole reply that keeps more than one prompt's scores."""
    return json.dumps({"prompt": ["lorem ipsum " * 660] * count, "echo": True, "logprobs": 5, "max_tokens": 0}).encode()


def ids():
    return ('{"tokens":[%s]}' % ZEROS).encode()


def measure_memory(program, model, name, path, body):
    daemon = Daemon(program, model)
    daemon.begin_peak()
    begin = time.monotonic()
    status, size = daemon.post(path, body)
    seconds = time.monotonic() - begin
    peak = daemon.peak()
    print(f"{name} | {status} | {size / 1e6:.1f} MB | {seconds:.1f} s | {peak:.0f} MiB", flush=True)
    daemon.close()
    return line(name, peak, MAX_ONE, status=status, reply_mb=round(size / 1e6, 1), seconds=round(seconds, 1))


def measure_unread(program, model, tokens, count):
    daemon = Daemon(program, model)
    daemon.begin_peak()
    body = scores(tokens)
    sockets = []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", daemon.port))
        one.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        sockets.append(one)
    for one in sockets:
        one.recv(1)  # the reply has begun
    name, peak = f"{count} replies of {tokens} tokens x 128, unread", daemon.peak()
    print(f"{name} | {peak:.0f} MiB", flush=True)
    daemon.close()
    return line(name, peak, MAX_ALL)


def measure_latency(program, model, count):
    daemon = Daemon(program, model)
    body = prompt()
    began = time.monotonic()
    senders = [threading.Thread(target=daemon.post, args=("/v1/completions", body)) for _ in range(count)]
    small, alive = [], []
    for sender in senders:
        sender.start()
    while any(sender.is_alive() for sender in senders) or len(small) < 20:
        for times, call in ((alive, lambda: daemon.get("/livez")), (small, lambda: daemon.post("/v1/completions", b'{"prompt":"x","max_tokens":1}'))):
            begin = time.monotonic()
            call()
            times.append(time.monotonic() - begin)
    took = time.monotonic() - began
    high = lambda times: sorted(times)[max(0, int(len(times) * 0.99) - 1)]
    slowest, slowest_livez = high(small), high(alive)
    print(
        f"{count} prompts of 7 MiB | all refused after {took:.1f} s | small request: median {statistics.median(small) * 1e3:.0f} ms, "
        f"largest {max(small) * 1e3:.0f} ms | /livez 99 % {slowest_livez * 1e3:.0f} ms ({len(alive)} samples)",
        flush=True,
    )
    daemon.close()
    return [line(f"small request beside {count} prompts of 7 MiB, s", slowest, 1.0), line("/livez beside them, s", slowest_livez, 0.05)]


MAX_ONE, MAX_ALL = 64, 512  # MiB above idle


def line(what, value, bound, **more):
    return {"what": what, "value": round(value, 3), "bound": bound, "verdict": "pass" if value <= bound else "short"} | more


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model", help="a GGUF file, for the prompts; memory is measured with the weightless model")
    parser.add_argument("--before", help="another build, measured first")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=1900, help="of the reply with log-probabilities")
    asked = parser.parse_args()
    for program in filter(None, (asked.before, asked.program)):
        print(f"# {program}")
        lines = []
        lines.append(measure_memory(program, "hash", "prediction of 8 MiB of ids, n 128", "/v1/completions", prediction()))
        lines.append(measure_memory(program, "hash", f"{asked.tokens} tokens, top 20, n 128", "/v1/chat/completions", scores(asked.tokens)))
        lines.append(measure_memory(program, "hash", "response of 30,000 tokens, top 20", "/v1/responses", response()))
        lines.append(measure_memory(program, "hash", "the same, streamed", "/v1/responses", response(stream=True)))
        lines.append(measure_memory(program, "hash", "the same, resumable", "/v1/responses", response(stream=True, paceline={"resumable": True})))
        lines.append(measure_memory(program, "hash", "echo of 31,000 characters, scored", "/v1/completions", echo()))
        lines.append(measure_memory(program, "hash", "the same, 128 choices of 16 tokens", "/v1/completions", echo(16, 128)))
        lines.append(measure_memory(program, "hash", "128 prompts of 8,000 characters, scored", "/v1/completions", many_prompts(128)))
        lines.append(measure_memory(program, "hash", "8 MiB of ids to detokenize", "/detokenize", ids()))
        lines.append(measure_memory(program, "hash", "7 MiB of text to tokenize", "/tokenize", prompt()))
        for where in ("/tokenize", "/v1/completions"):
            lines.append(measure_memory(program, asked.model, f"8 MiB of spaces to {where}", where, spaces()))
        lines.append(measure_unread(program, "hash", asked.tokens, 5))
        lines += measure_latency(program, asked.model, 12)
    if asked.out:
        asked.out.write_text(json.dumps(lines, indent=1) + "\n")
    return int(any(one["verdict"] == "short" for one in lines))


if __name__ == "__main__":
    sys.exit(main())
