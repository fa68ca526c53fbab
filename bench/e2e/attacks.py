#!/usr/bin/env python3
"""Attacks on a daemon's edge in full size, on loopback: what they cost in memory, and how long a new client waits meanwhile.

    python3 bench/e2e/attacks.py build/release/bin/paceline [--only NAME ...]

Starts a daemon over the hash model for each attack, with the default options, and prints a table: resident memory at its peak above
what the daemon had before, and the longest of ten visits of a new client (connect, /livez) while the attack lasts. Every loop is
bounded. Wants some 2,300 file descriptors (`ulimit -n`).
"""
import argparse
import resource
import socket
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

# With 1,024 connections that have sent a request no place is left: 1,023, so that the new client has one.
# name: connections, what each sends once, what it sends again and again, for how many seconds in all
ATTACKS = {
    "one pipelines /metrics": (1, b"", get("/metrics") * 100, 15),
    "1,023 pipeline /metrics": (1023, b"", get("/metrics") * 100, 15),
    "1,023 pipeline 404s": (1023, b"", get("/nothing") * 100, 15),
    "one floods a WebSocket": (1, UPGRADE, EMPTY_OBJECT_FRAME * 1000, 15),
    "1,023 flood WebSockets": (1023, UPGRADE, EMPTY_OBJECT_FRAME * 1000, 15),
    "150 bodies of 8 MiB": (150, post_head(BODY) + b" " * (BODY - 1), b"", 15),
    "1,024 bodies of 8 MiB": (1024, post_head(BODY) + b" " * (BODY - 1), b"", 30),
    "1,023 messages of 8 MiB": (1023, UPGRADE + LARGE_MESSAGE, b"", 30),
    "1,100 silent": (1100, b"", b"", 5),
}


class Daemon:
    def __init__(self, program, folder):
        self.process, self.port = bench_daemon.start(program, CONFIG, folder)
        self.visit()
        self.memory_before = self.memory("VmRSS")

    def memory(self, field):
        return bench_daemon.memory(self.process, field)

    def connect(self, timeout):
        return socket.create_connection((bench_daemon.HOST, self.port), timeout=timeout)

    def visit(self):
        """Seconds until a new client has its answer; none if it never gets one."""
        begin = time.monotonic()
        try:
            with self.connect(30) as connection:
                connection.sendall(get("/livez"))
                answered = connection.recv(4096).startswith(b"HTTP/1.1 200")
        except OSError:
            answered = False
        return time.monotonic() - begin if answered else None


class Attacker:
    """One connection that sends what it can and reads nothing."""

    def __init__(self, daemon, once, again):
        self.connection = daemon.connect(10)
        if once.startswith(UPGRADE):  # nothing may follow before its answer
            self.connection.sendall(UPGRADE)
            if b"101" not in self.connection.recv(4096):
                raise OSError("not upgraded")
            once = once[len(UPGRADE) :]
        self.connection.setblocking(False)
        self.pending, self.again, self.closed = memoryview(once), again, False

    def push(self):
        """True if something was taken."""
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
    served = f"{max(waits):.3f} s" if None not in waits else f"refused {waits.count(None)} of {len(waits)}"
    print(f"| {name} | {growth / MIB:.0f} | {served} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--only", nargs="*", choices=ATTACKS, default=list(ATTACKS))
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print("| attack | MiB above idle | a new client is served within |\n| --- | --- | --- |", flush=True)
    for name in arguments.only:
        run(arguments.program, name)


if __name__ == "__main__":
    main()
