#!/usr/bin/env python3
"""Full-size attacks on a daemon over loopback: their cost in memory, and the waiting time of a new client meanwhile.

    python3 bench/e2e/attacks.py build/release/bin/paceline [--only NAME ...] [--out attacks.json]

Starts a daemon with the hash model and default options for each attack, and prints a table: peak resident memory above
that of the idle daemon, and the longest of ten visits of a new client (connect, /livez) while the attack lasts. One connection may
take 1 MiB beyond the body it is admitted with, all together 512 MiB; a new client is served within 1 s. Ends with 1 if an attack
exceeds its bound. Every loop is bounded. Needs about 2,300 file descriptors (`ulimit -n`).
"""
import argparse
import json
import pathlib
import resource
import socket
import sys
import tempfile
import threading
import time

import bench_daemon

MIB = 1 << 20
CONFIG = "version: 1\nmodels: [{name: hash, kind: hash, context_length: 4096}]\nserver: {port: 0}\nengine: {threads: 1}\nlogging: {level: error}\n"
BODY = 8 * MIB


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def post_head(size):
    return f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()


UPGRADE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
EMPTY_OBJECT_FRAME = b"\x81\x82\x00\x00\x00\x00{}"
LARGE_MESSAGE = b"\x81\xff" + BODY.to_bytes(8, "big") + bytes(4) + b" " * (BODY - 1)
MAX_ONE, MAX_ALL, MAX_WAIT = 1, 512, 1.0  # MiB, MiB, seconds


def post(path, fields):
    body = json.dumps(fields).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def frame(fields):
    """A masked text frame, with a mask of zeros."""
    text = json.dumps(fields).encode()
    size = bytes([0x80 | len(text)]) if len(text) < 126 else b"\xfe" + len(text).to_bytes(2, "big")
    return b"\x81" + size + bytes(4) + text


CHAT = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1900, "ignore_eos": True}
SCORED = CHAT | {"logprobs": True, "top_logprobs": 20, "n": 8}
CREATE = {"type": "response.create", "input": "x", "max_output_tokens": 1900, "top_logprobs": 20, "ignore_eos": True}

# One well-behaved request of each kind.
WARM = [post("/v1/completions", {"prompt": "x", "max_tokens": 1}), post("/v1/chat/completions", SCORED | {"max_tokens": 2, "stream": True}), get("/metrics")]

# 1,024 connections with a request would take all places: 1,023 leave one for the new client.
# name: connections, what each sends once, what it sends repeatedly, and for how many seconds
ATTACKS = {
    "one pipelines /metrics": (1, b"", get("/metrics") * 100, 15),
    "one pipelines /livez": (1, b"", get("/livez") * 100, 15),
    "one pipelines requests": (1, b"", post("/v1/completions", {"prompt": "x", "max_tokens": 1}) * 20, 15),
    "one does not read a stream": (1, post("/v1/chat/completions", CHAT | {"stream": True}), b"", 15),
    "one pipelines streams": (1, b"", post("/v1/chat/completions", SCORED | {"stream": True}) * 10, 15),
    "one floods a WebSocket with pings": (1, UPGRADE, (b"\x89\x80" + bytes(4)) * 1000, 15),
    "one asks a WebSocket for responses": (1, UPGRADE, frame(CREATE | {"stream_id": "a"}) * 10, 15),
    "1,023 pipeline /metrics": (1023, b"", get("/metrics") * 100, 15),
    "1,023 pipeline 404s": (1023, b"", get("/nothing") * 100, 15),
    "one floods a WebSocket": (1, UPGRADE, EMPTY_OBJECT_FRAME * 1000, 15),
    "1,023 flood WebSockets": (1023, UPGRADE, EMPTY_OBJECT_FRAME * 1000, 15),
    "150 bodies of 8 MiB": (150, post_head(BODY) + b" " * (BODY - 1), b"", 15),
    "1,024 bodies of 8 MiB": (1024, post_head(BODY) + b" " * (BODY - 1), b"", 30),
    "1,023 messages of 8 MiB": (1023, UPGRADE + LARGE_MESSAGE, b"", 30),
    "1,023 ask WebSockets for responses": (1023, UPGRADE + frame(CREATE | {"stream_id": "a"}), b"", 20),
    "256 do not read scored streams": (256, post("/v1/chat/completions", SCORED | {"n": 1, "stream": True}), b"", 20),
    "128 do not read scored replies": (128, post("/v1/chat/completions", SCORED), b"", 20),
    "1,100 silent": (1100, b"", b"", 5),
}


class Daemon:
    def __init__(self, program, folder):
        self.process, self.port = bench_daemon.start(program, CONFIG, folder)
        self.visit()
        for request in WARM:  # the program's own pages become resident, so that they do not count as memory of an attack
            self.ask(request)
        self.memory_before = self.memory("VmRSS")

    def memory(self, field):
        return bench_daemon.memory(self.process, field)

    def connect(self, timeout):
        return socket.create_connection((bench_daemon.HOST, self.port), timeout=timeout)

    def ask(self, request):
        """Reads the whole reply to a request that closes its connection."""
        with self.connect(30) as connection:
            connection.sendall(request.replace(b"Host: localhost", b"Host: localhost\r\nConnection: close", 1))
            while connection.recv(1 << 16):
                pass

    def visit(self):
        """Seconds until a new client has its answer; None if there is no answer."""
        begin = time.monotonic()
        try:
            with self.connect(30) as connection:
                connection.sendall(get("/livez"))
                answered = connection.recv(4096).startswith(b"HTTP/1.1 200")
        except OSError:
            answered = False
        return time.monotonic() - begin if answered else None


class Attacker:
    """One connection that sends as much as it can and reads nothing."""

    def __init__(self, daemon, once, again):
        self.connection = daemon.connect(10)
        if once.startswith(UPGRADE):  # nothing may be sent before the answer has arrived
            self.connection.sendall(UPGRADE)
            if b"101" not in self.connection.recv(4096):
                raise OSError("not upgraded")
            once = once[len(UPGRADE) :]
        self.connection.setblocking(False)
        self.pending, self.again, self.closed = memoryview(once), again, False

    def push(self):
        """True if the server has taken something."""
        if not self.pending:
            self.pending = memoryview(self.again)
        if self.closed or not self.pending:
            return False
        try:
            self.pending = self.pending[self.connection.send(self.pending[: 256 << 10]) :]
            return True
        except BlockingIOError:
            return False
        except OSError:
            self.closed = True
            return False


def run(program, name):
    """The attack's line; `verdict` says whether it stayed within its bounds."""
    num_connections, once, again, seconds = ATTACKS[name]
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(program, folder)
        attackers, done = [], threading.Event()

        def attack():
            end = time.monotonic() + seconds
            for _ in range(num_connections):
                try:
                    attackers.append(Attacker(daemon, once, again))
                except OSError:
                    break
            while time.monotonic() < end and not done.is_set():
                if not any([attacker.push() for attacker in attackers]):
                    time.sleep(0.01)

        thread = threading.Thread(target=attack)
        thread.start()
        time.sleep(min(3, seconds / 2))
        waits = []
        for _ in range(10):
            waits.append(daemon.visit())
            time.sleep(seconds / 30)
        thread.join()
        waits.append(daemon.visit())
        growth = daemon.memory("VmHWM") - daemon.memory_before
        for attacker in attackers:
            attacker.connection.close()
        daemon.process.terminate()
        daemon.process.wait(60)
    refused = waits.count(None)
    served = f"{max(waits):.3f} s" if refused == 0 else f"refused {refused} of {len(waits)}"
    # A whole body that was read counts as memory of its request.
    bound = MAX_ONE if num_connections == 1 else MAX_ALL
    good = growth / MIB <= bound and refused == 0 and max(waits) <= MAX_WAIT
    print(f"| {name} | {growth / MIB:.1f} | {bound} | {served} | {'pass' if good else 'short'} |", flush=True)
    return {"attack": name, "mib": round(growth / MIB, 2), "bound": bound, "refused": refused,
            "longest_visit": None if refused else round(max(waits), 4), "verdict": "pass" if good else "short"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--only", nargs="*", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print("| attack | MiB above idle | bound | a new client is served within | |\n| --- | --- | --- | --- | --- |", flush=True)
    lines = [run(arguments.program, name) for name in arguments.only]
    if arguments.out:
        arguments.out.write_text(json.dumps(lines, indent=1) + "\n")
    return int(any(line["verdict"] == "short" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
