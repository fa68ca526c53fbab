"""Malicious clients of the daemon: how much memory they cost, and whether other clients are served meanwhile.

Each case is small and on loopback; bench/e2e/attacks.py has them in full size. Times are generous: the machine may be busy.
"""
import http.client
import json
import os
import socket
import threading
import time

import pytest

from daemon import is_closed, read_reply

MIB = 1 << 20
SERVED_SECONDS = 10


def memory_bytes(daemon, field):
    with open(f"/proc/{daemon.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))


class Memory:
    """The daemon's peak above what it had before the attack."""

    def __init__(self, daemon):
        assert daemon.get("/livez")[0] == 200 and daemon.get("/metrics")[0] == 200
        self.daemon = daemon
        with open(f"/proc/{daemon.process.pid}/clear_refs", "w") as peak:
            peak.write("5")
        self.before = memory_bytes(daemon, "VmRSS")

    def growth(self):
        return memory_bytes(self.daemon, "VmHWM") - self.before


def assert_served(daemon):
    begin = time.monotonic()
    assert daemon.get("/livez")[0] == 200
    assert daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 2})[0] == 200
    assert time.monotonic() - begin < SERVED_SECONDS


def flood(connection, data, seconds, max_bytes=256 * MIB):
    """Sends `data` again and again and reads nothing; returns the bytes that were taken."""
    connection.setblocking(False)
    end, sent, offset = time.monotonic() + seconds, 0, 0
    view = memoryview(data)
    while time.monotonic() < end and sent < max_bytes:
        try:
            count = connection.send(view[offset:])
            sent, offset = sent + count, (offset + count) % len(data)
        except BlockingIOError:
            time.sleep(0.01)
        except (BrokenPipeError, ConnectionResetError):
            break
    return sent


FLOODS = {
    "metrics": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100,
    "no key": b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100,
    "no such path": b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100,
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_client_that_asks_and_does_not_read_is_not_read_from(start_daemon, tmp_path, name):
    keys = tmp_path / "keys"
    keys.write_text("key\n")
    daemon = start_daemon(**{"server.api_keys_file": keys})
    memory = Memory(daemon)
    with daemon.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sent = flood(connection, FLOODS[name], 2)
        assert memory.growth() < 2 * MIB
        assert daemon.get("/livez")[0] == 200
        assert sent < 16 * MIB, "what the kernel keeps, and no more"


def test_replies_that_were_held_back_come_when_the_client_reads(daemon):
    """Held back is not lost: every request gets its reply, in order."""
    asked = 3000
    with daemon.connect() as connection:
        request = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nx-request-id: number-%d\r\n\r\n"
        writer = threading.Thread(target=lambda: [connection.sendall(request % i) for i in range(asked)])
        writer.start()
        time.sleep(0.2)
        data = b""
        while data.count(b"x-request-id: ") < asked:
            more = connection.recv(1 << 20)
            assert more
            data += more
        writer.join()
    told = [int(line.split(b"-")[-1]) for line in data.split(b"\r\n") if line.startswith(b"x-request-id: ")]
    assert told == list(range(asked))


def upgrade(connection):
    connection.sendall(
        b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b"101" in connection.recv(4096)


def frame(payload, opcode=1, final=True):
    """A client's frame, masked with zeros."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big") if size < 65536 else b"\xff" + size.to_bytes(8, "big")
    return bytes([(0x80 if final else 0) | opcode]) + length + bytes(4) + payload


def test_error_frames_that_nobody_reads_stop(daemon):
    memory = Memory(daemon)
    with daemon.connect() as connection:
        upgrade(connection)
        sent = flood(connection, frame(b"{}") * 1000, 3)
        assert memory.growth() < 2 * MIB
        assert sent < 16 * MIB
        assert_served(daemon)


def post_head(size):
    return f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()


def send_until_closed(connection, data):
    try:
        connection.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused before the end


@pytest.fixture
def narrow_daemon(start_daemon):
    return start_daemon(**{"server.max_body": "1MiB", "server.body_memory": "4MiB"})


CHUNKED_HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_unfinished_bodies_share_one_budget_and_the_slowest_give_way(narrow_daemon, framing):
    daemon, size = narrow_daemon, MIB
    memory = Memory(daemon)
    attackers = [daemon.connect() for _ in range(40)]
    chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    unfinished = post_head(size) + b" " * (size - 1) if framing == "length" else CHUNKED_HEAD + chunk * (size // 0x4000)
    for connection in attackers:
        send_until_closed(connection, unfinished)
    daemon.wait_for(lambda: daemon.metric("paceline_bodies_given_up_total") >= 36)
    assert memory.growth() < 16 * MIB
    body = json.dumps({"prompt": "x", "max_tokens": 2}).encode()
    assert daemon.post("/v1/completions", body)[0] == 200
    assert daemon.post("/v1/completions", body + b" " * (size - len(body)))[0] == 200, "a large one that comes at once"
    status, headers, reply = read_reply(attackers[0])
    assert status == 503 and int(headers["retry-after"]) >= 1 and headers["connection"] == "close"
    assert json.loads(reply)["error"]["code"] == "overloaded"
    for connection in attackers:
        connection.close()


def test_framing_costs_no_memory(narrow_daemon):
    """A body of one-byte chunks has six times its bytes on the wire; extensions and trailers could be endless."""
    memory = Memory(narrow_daemon)
    body = json.dumps({"prompt": "x", "max_tokens": 2}).encode().ljust(256 << 10)
    with narrow_daemon.connect() as connection:
        connection.sendall(CHUNKED_HEAD + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        assert read_reply(connection)[0] == 200
    for endless in (b"1;" + b"e" * MIB, (b"1;" + b"e" * 100 + b"\r\n \r\n") * 10000, b"0\r\nX: " + b"t" * MIB, b"0\r\n" + b"X: 1\r\n" * 100000):
        with narrow_daemon.connect() as connection:
            send_until_closed(connection, CHUNKED_HEAD + endless)
            assert read_reply(connection)[0] == 400
    assert memory.growth() < 4 * MIB
    assert_served(narrow_daemon)


def test_unfinished_messages_share_the_same_budget(narrow_daemon):
    daemon, size = narrow_daemon, MIB
    memory = Memory(daemon)
    attackers = [daemon.connect() for _ in range(40)]
    for connection in attackers:
        upgrade(connection)
        send_until_closed(connection, frame(b" " * (size - 1), final=False))
    daemon.wait_for(lambda: daemon.metric("paceline_bodies_given_up_total") >= 36)
    assert memory.growth() < 20 * MIB
    assert b"overloaded" in attackers[0].recv(4096)
    assert_served(daemon)
    for connection in attackers:
        connection.close()


def test_small_bodies_find_room_when_the_budget_is_used_up(start_daemon):
    daemon = start_daemon(**{"server.max_body": "1MiB", "server.body_memory": "1MiB"})
    with daemon.connect() as large:
        large.sendall(post_head(MIB) + b" " * (MIB - 1))
        begun = [daemon.connect() for _ in range(20)]
        body = json.dumps({"prompt": "x", "max_tokens": 2}).encode()
        body += b" " * ((60 << 10) - len(body))
        for connection in begun:
            connection.sendall(post_head(len(body)) + body[:-1])
        for connection in begun:
            connection.sendall(body[-1:])
            assert read_reply(connection)[0] == 200
            connection.close()


def test_silent_connections_make_room_for_new_clients(start_daemon):
    daemon = start_daemon(**{"server.max_connections": 50})
    with daemon.connect() as settled:
        settled.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_reply(settled)[0] == 200
        silent = [daemon.connect() for _ in range(120)]
        assert_served(daemon)
        assert daemon.metric("paceline_connections_evicted_total") >= 70
        assert is_closed(silent[0])
        settled.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_reply(settled)[0] == 200, "who has sent a request is not closed for others"
        for connection in silent:
            connection.close()
    assert any("too many connections" in line for line in log_of(daemon))


def test_a_connection_over_the_limit_is_told_where_none_is_silent(start_daemon):
    daemon = start_daemon(**{"server.max_connections": 3})
    settled = [daemon.connect() for _ in range(3)]
    for connection in settled:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_reply(connection)[0] == 200
    with daemon.connect() as refused:
        status, headers, body = read_reply(refused)
        assert status == 503 and json.loads(body)["error"]["code"] == "too_many_connections"
        assert headers["connection"] == "close" and int(headers["retry-after"]) >= 1
    settled.pop().close()
    daemon.wait_for(lambda: daemon.get("/livez")[0] == 200)
    # The connection before may still hold the last place: then the scrape itself is refused.
    daemon.wait_for(lambda: daemon.metric("paceline_connections_refused_total") >= 1)
    for connection in settled:
        connection.close()
    assert any("too many connections" in line and "refused_in_all=1" in line for line in log_of(daemon))


def log_of(daemon):
    daemon.terminate()
    return daemon.process.communicate(timeout=30)[1].splitlines()


LARGE = {"prompt": list(range(200)) * 15, "max_tokens": 1, "echo": True, "return_token_ids": True, "n": 64, "ignore_eos": True}


def ask_for_a_large_reply(daemon, receive_buffer=4096):
    """A connection with a reply of megabytes under way."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(30)
    connection.connect((daemon.host, daemon.port))
    body = json.dumps(LARGE).encode()
    connection.sendall(post_head(len(body)) + body)
    return connection


def test_a_client_that_takes_a_byte_now_and_then_is_closed(start_daemon):
    daemon = start_daemon(**{"server.send_timeout": "1s"})
    with ask_for_a_large_reply(daemon) as connection:
        end = time.monotonic() + 20
        while daemon.metric("paceline_stalled_closes_total") == 0:
            assert time.monotonic() < end, "never closed"
            connection.recv(1)
            time.sleep(0.1)


def test_a_client_that_reads_slowly_gets_all_of_a_large_reply(start_daemon):
    """It takes several times `send_timeout`."""
    daemon = start_daemon(**{"server.send_timeout": "500ms"})
    with ask_for_a_large_reply(daemon, 64 << 10) as connection:
        begin = time.monotonic()
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        assert reply.status == 200
        body = b""
        while part := reply.read(64 << 10):  # whole, in chunks or with its length
            body += part
            time.sleep(0.05 if time.monotonic() - begin < 3 else 0)
        assert len(body) > MIB
        assert time.monotonic() - begin > 1
        assert len(json.loads(body)["choices"]) == 64
    assert daemon.metric("paceline_stalled_closes_total") == 0


def test_health_is_told_while_many_scrape(start_daemon):
    daemon = start_daemon()
    done = threading.Event()

    def scrape():
        while not done.is_set():
            daemon.get("/metrics")

    scrapers = [threading.Thread(target=scrape) for _ in range(8)]
    for scraper in scrapers:
        scraper.start()
    try:
        for _ in range(20):
            assert_served(daemon)
    finally:
        done.set()
        for scraper in scrapers:
            scraper.join()
