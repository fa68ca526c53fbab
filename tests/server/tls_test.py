"""TLS: HTTP, streams and WebSocket through it, client certificates, new certificates on SIGHUP, and clients that do it wrong.
All of it is in one file, because all tests share the certificates."""
import asyncio
import contextlib
import http.client
import json
import os
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest
import websockets.asyncio.client
from websockets.exceptions import ConnectionClosed

from certificates import Files, section
from daemon import Daemon, is_closed, open_socket, read_reply, socket_of

PROGRAM = os.environ["PACELINE_BIN"]
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def daemon(files, tmp_path_factory):
    running = Daemon(tmp_path_factory.mktemp("tls"), section(*files.server), tls=files.ca.trust(), **{"server.max_body": "64KiB"})
    yield running
    assert running.stop() == 0


@pytest.fixture
def start_tls(start_daemon, files):
    """Starts daemons of a test's own."""

    def start(identity=files.server, more="", server="", client=None, **overrides):
        return start_daemon(sections=section(*identity, more, server), tls=files.ca.trust(client), **overrides)

    return start


def open_tls(daemon, context=None, **options):
    """A TLS socket that tells a clean end from one that is cut off."""
    context = context or daemon.tls
    return context.wrap_socket(daemon.connect(), server_hostname="localhost", suppress_ragged_eofs=False, **options)


def post_bytes(body, size=None):
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size or len(data)}\r\n\r\n"
    return head.encode() + data


def common_name(connection):
    return dict(pair[0] for pair in connection.getpeercert()["subject"])["commonName"]


def test_http_through_tls(daemon):
    assert daemon.url.startswith("https://127.0.0.1:")
    status, _, reply = daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 3, "ignore_eos": True})
    assert status == 200 and reply["usage"]["completion_tokens"] == 3
    before = daemon.metric("paceline_tls_handshakes_total")
    with open_tls(daemon) as connection:
        assert connection.version() == "TLSv1.3" and connection.selected_alpn_protocol() is None
        connection.sendall(LIVEZ * 3)
        data = b""
        while data.count(b"HTTP/1.1 200 OK") < 3:
            data += connection.recv(65536)
        connection.sendall(LIVEZ.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert read_reply(connection)[1]["connection"] == "close"
        assert connection.recv(1) == b"", "a clean end"
    assert daemon.metric("paceline_tls_handshakes_total") >= before + 2
    assert daemon.metric("paceline_tls_certificate_not_after_seconds") == pytest.approx(time.time() + 10 * 86400, abs=3600)


def test_streams_through_tls(daemon):
    body = {"prompt": "x", "max_tokens": 50, "stream": True, "ignore_eos": True, "seed": 1}
    with open_tls(daemon) as connection:
        connection.sendall(post_bytes(body))
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        events = [json.loads(line[6:]) for line in reply.read().decode().splitlines() if line.startswith("data: {")]
    text = "".join(event["choices"][0]["text"] for event in events if event["choices"])
    assert text == daemon.post("/v1/completions", body | {"stream": False})[2]["choices"][0]["text"]


def test_websocket_through_tls(daemon):
    # The asynchronous client, because the other one reads on a thread of its own, and before Python 3.13 a TLS socket may not be read while it is written.
    async def two_lanes():
        url, options = socket_of(daemon)
        async with websockets.asyncio.client.connect(url, **options) as ws:
            for lane in "ab":
                await ws.send(json.dumps({"type": "response.create", "model": "hash", "input": "x", "max_output_tokens": 20, "ignore_eos": True, "stream_id": lane}))
            ended = 0
            while ended < 2:
                ended += json.loads(await asyncio.wait_for(ws.recv(), 30))["type"] in ("response.completed", "response.incomplete")
        assert ws.close_code == 1000

    asyncio.run(two_lanes())


@pytest.mark.parametrize("way", ["reset", "fin", "close_notify"])
def test_a_websocket_that_is_cut_off_leaves_nothing_behind(daemon, way):
    with contextlib.suppress(OSError, ConnectionClosed), open_socket(daemon) as ws:
        ws.send(json.dumps({"type": "response.create", "model": "hash", "input": "x", "max_output_tokens": 4000, "ignore_eos": True}))
        ws.recv(timeout=10)
        if way == "reset":
            ws.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ws.socket.unwrap() if way == "close_notify" else ws.socket.shutdown(socket.SHUT_WR) if way == "fin" else ws.socket.close()
    daemon.wait_for(lambda: daemon.metric("paceline_websocket_connections_active") == 0)
    daemon.wait_until_idle()


def test_curl(daemon, files):
    def curl(authority, *arguments):
        return subprocess.run(["curl", "-sS", "--cacert", authority, *arguments, f"https://localhost:{daemon.port}/livez"], capture_output=True, text=True, timeout=30)

    assert "ok" in curl(files.ca.file).stdout
    assert "ok" in curl(files.ca.file, "--tlsv1.2", "--tls-max", "1.2").stdout
    wrong = curl(files.other_ca.file)
    assert wrong.returncode == 60, wrong.stderr


def test_old_versions_and_ciphers_are_refused(daemon, files):
    def attempt(change):
        context = files.ca.trust()
        change(context)
        with pytest.raises(ssl.SSLError):
            open_tls(daemon, context)

    def old(context):
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

    def weak(context):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE-ECDSA-AES128-SHA:AES128-GCM-SHA256")

    attempt(old)
    attempt(weak)
    attempt(lambda context: context.set_alpn_protocols(["h2"]))
    context = files.ca.trust()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with open_tls(daemon, context) as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"


def test_a_client_cannot_renegotiate(daemon, files):
    """One byte of the client would cost the server a handshake each time."""
    command = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{daemon.port}", "-CAfile", files.ca.file]
    done = subprocess.run(command, input="R\n", capture_output=True, text=True, timeout=30)
    assert "Compression: NONE" in done.stdout and "no renegotiation" in done.stdout + done.stderr


def test_the_servers_own_pages_come_by_https(daemon):
    own = f"127.0.0.1:{daemon.port}"
    for origin, host, status in (
        (f"https://{own}", own, 200),
        ("http://localhost:3000", own, 200),  # a page of this machine
        ("https://evil.example", own, 403),
    ):
        assert daemon.get("/v1/models", {"Origin": origin, "Host": host})[0] == status, origin


def test_a_page_by_http_is_not_the_same_origin(start_tls):
    daemon = start_tls(server=", allowed_hosts: [box.example]")
    for origin, status in (("https://box.example", 200), ("http://box.example", 403)):
        assert daemon.get("/v1/models", {"Origin": origin, "Host": "box.example"})[0] == status, origin


def test_client_certificates(start_tls, files):
    daemon = start_tls(more=f", client_ca: {files.ca.file}", client=files.client)
    assert daemon.get("/livez")[0] == 200
    for identity in (None, files.stranger):
        context = files.ca.trust(identity)
        with pytest.raises(ssl.SSLError, match="certificate required|unknown ca"):
            with open_tls(daemon, context) as connection:  # TLS 1.3: the client is told after its own handshake
                for _ in range(3):
                    time.sleep(0.05)
                    connection.sendall(LIVEZ)  # a reset would take the alert with it
                connection.recv(1)
    assert daemon.metric("paceline_tls_handshake_failures_total") >= 2
    context = files.ca.trust(files.client)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with open_tls(daemon, context) as first:
        first.sendall(LIVEZ)
        assert read_reply(first)[0] == 200
        with open_tls(daemon, context, session=first.session) as resumed:
            assert resumed.session_reused
            resumed.sendall(LIVEZ)
            assert read_reply(resumed)[0] == 200


def test_sighup_swaps_the_certificate_for_new_connections(start_tls, files):
    daemon = start_tls()
    with open_tls(daemon) as old:
        assert common_name(old) == "server"
        daemon.configure(section(*files.second))
        daemon.reload()
        with open_tls(daemon) as fresh:
            assert common_name(fresh) == "second"
        old.sendall(LIVEZ)
        assert read_reply(old)[0] == 200
    daemon.terminate()
    lines = daemon.process.communicate(timeout=30)[1].splitlines()
    told = [line for line in lines if " certificate " in line]
    assert len(told) == 2 and "server" in told[0] and "second" in told[1] and "valid_till=20" in told[1]


def test_files_with_the_same_names_are_read_again_too(start_tls, files, tmp_path):
    names = tmp_path / "own.pem", tmp_path / "own.key"

    def install(identity):
        for source, target in zip(identity, names):
            target.write_bytes(source.read_bytes())

    install(files.server)
    daemon = start_tls(identity=names)
    install(files.second)
    daemon.reload()
    with open_tls(daemon) as connection:
        assert common_name(connection) == "second"
    names[0].write_bytes(files.server[0].read_bytes())  # the key is still the second's
    daemon.reload()
    assert daemon.metric("paceline_config_last_reload_refused") == 1
    with open_tls(daemon) as connection:
        assert common_name(connection) == "second", "the old one stays"
    daemon.configure("")
    daemon.reload()
    assert daemon.metric("paceline_config_reloads_total", result="refused") == 2, "TLS cannot be switched off"
    daemon.terminate()
    log = daemon.process.communicate(timeout=30)[1]
    assert f"{names[1]}: not the key of the certificate in {names[0]}" in log and "only a restart switches TLS" in log


def wrong_files(files, folder):
    certificate, key = files.server
    empty, text, encrypted, weak = folder / "empty", folder / "text", folder / "encrypted", folder / "weak"
    empty.write_text("")
    text.write_text("this is no PEM\n")
    files.ca.openssl("ec", "-in", key, "-aes128", "-passout", "pass:secret", "-out", encrypted)
    files.ca.openssl("req", "-x509", "-newkey", "rsa:1024", "-nodes", "-keyout", folder / "weak.key", "-out", weak, "-days", "1", "-subj", "/CN=weak")
    return [
        (section(weak, folder / "weak.key"), f"{weak}: no usable certificate in PEM: ee key too small"),
        (section("/nowhere/c.pem", key), "/nowhere/c.pem: cannot read: No such file"),
        (section(certificate, "/nowhere/k.pem"), "/nowhere/k.pem: cannot read: No such file"),
        (section(empty, key), f"{empty}: cannot read: it is empty"),
        (section(text, key), f"{text}: no usable certificate in PEM"),
        (section(certificate, text), f"{text}: no usable private key in PEM"),
        (section(certificate, encrypted), f"{encrypted}: no usable private key in PEM without a passphrase"),
        (section(certificate, files.second[1]), f"{files.second[1]}: not the key of the certificate in {certificate}"),
        (section(certificate, key, f", client_ca: {text}"), f"{text}: no usable certificate authority in PEM"),
    ]


def test_wrong_files_are_named_by_check_config_and_at_the_start(files, tmp_path):
    config = tmp_path / "bad.yaml"
    for yaml, words in wrong_files(files, tmp_path):
        config.write_text("version: 1\nmodels: [{kind: hash}]\n" + yaml)
        checked = subprocess.run([PROGRAM, "check-config", config], capture_output=True, text=True, timeout=30)
        assert checked.returncode == 69 and "bad.yaml:3:" in checked.stderr and words in checked.stderr, (words, checked.stderr)
        started = subprocess.run([PROGRAM, "serve", "--config", config], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
        assert started.returncode == 78 and words in started.stderr and "listening" not in started.stdout, (words, started.stderr)


def test_a_slow_handshake_is_cut(start_tls):
    """With `server.header_timeout`: before the hello, in it, and after the first answer."""
    daemon = start_tls(**{"server.header_timeout": "500ms"})
    hello = ssl.MemoryBIO()
    client = daemon.tls.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = hello.read()
    connections = [daemon.connect() for _ in range(3)]
    begin = time.monotonic()
    connections[1].sendall(hello[:50])
    connections[2].sendall(hello)
    for connection in connections:
        assert is_closed(connection)
        connection.close()
    assert 0.3 < time.monotonic() - begin < 5
    daemon.wait_for(lambda: daemon.metric("paceline_tls_handshake_failures_total") == 3)


def test_plain_http_and_garbage_are_turned_away(daemon):
    with daemon.connect() as connection:
        connection.sendall(LIVEZ)
        status, headers, body = read_reply(connection)
        assert status == 400 and headers["connection"] == "close" and "https" in json.loads(body)["error"]["message"]
        assert is_closed(connection)
    for garbage in (b"\0" * 100, b"SSH-2.0-OpenSSH\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70000, os.urandom(300)):
        with daemon.connect() as connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(garbage)
            assert is_closed(connection), garbage[:20]
    assert daemon.get("/livez")[0] == 200
    daemon.wait_for(lambda: daemon.metric("paceline_connections_active") == 1)


def test_silent_handshakes_give_way_and_the_last_place_is_told(start_tls):
    daemon = start_tls(**{"server.max_connections": 5})
    silent = [daemon.connect() for _ in range(20)]
    assert daemon.get("/livez")[0] == 200
    assert daemon.metric("paceline_connections_evicted_total") >= 15
    assert is_closed(silent[0])
    settled = [open_tls(daemon) for _ in range(5)]
    for connection in settled:
        connection.sendall(LIVEZ)
        assert read_reply(connection)[0] == 200
    with open_tls(daemon) as refused:
        status, headers, body = read_reply(refused)
        assert status == 503 and json.loads(body)["error"]["code"] == "too_many_connections"
        assert refused.recv(1) == b""
    for connection in silent + settled:
        connection.close()


def test_a_refused_body_gets_its_answer_while_it_is_sent(daemon):
    """Bytes that meet a closed socket would reset the connection, and the answer would be lost."""
    with open_tls(daemon) as connection:
        connection.sendall(post_bytes(b"x", 1 << 20))
        for _ in range(5):
            time.sleep(0.05)
            connection.sendall(b" " * (32 << 10))
        assert read_reply(connection)[0] == 413
        assert connection.recv(1) == b""


@pytest.mark.parametrize("way", ["close_notify", "fin"])
def test_a_client_that_ends_its_side_has_left(start_tls, way):
    """As without TLS, the rest is not read."""
    daemon = start_tls(**{"models.0.hash.pass_work": 2000000})
    connection = open_tls(daemon)
    connection.sendall(post_bytes({"prompt": "x", "max_tokens": 3000, "stream": True, "ignore_eos": True}))
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    if way == "fin":
        connection.shutdown(socket.SHUT_WR)
    else:
        with contextlib.suppress(OSError):
            connection.unwrap()
    daemon.wait_for(lambda: daemon.metric("paceline_disconnect_cancels_total") == 1)
    daemon.wait_until_idle()
    connection.close()


LARGE = {"prompt": list(range(200)) * 15, "max_tokens": 1, "echo": True, "return_token_ids": True, "n": 64, "ignore_eos": True}


def test_large_replies_arrive_whole_and_those_who_do_not_read_are_closed(start_tls):
    daemon = start_tls(**{"server.send_timeout": "1s"})

    def ask():
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        raw.settimeout(30)
        raw.connect((daemon.host, daemon.port))
        connection = daemon.tls.wrap_socket(raw, server_hostname="localhost")
        connection.sendall(post_bytes(LARGE))
        return connection

    with ask() as connection:
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        body = b""
        while part := reply.read(256 << 10):
            body += part
            time.sleep(0.02)
        assert len(json.loads(body)["choices"]) == 64
    with ask():
        daemon.wait_for(lambda: daemon.metric("paceline_stalled_closes_total") == 1)


def test_a_drain_ends_streams_in_order_and_idle_connections_cleanly(start_tls):
    daemon = start_tls(**{"models.0.hash.pass_work": 2000000})
    idle, streams = open_tls(daemon), [open_tls(daemon) for _ in range(4)]
    idle.sendall(LIVEZ)
    assert read_reply(idle)[0] == 200
    for connection in streams:
        connection.sendall(post_bytes({"prompt": "x", "max_tokens": 100, "stream": True, "ignore_eos": True}))
        assert connection.recv(5) == b"HTTP/"
    with open_socket(daemon) as ws:
        daemon.terminate()
        assert idle.recv(1) == b"", "a clean end, at once"
        with pytest.raises(ConnectionClosed):
            ws.recv(timeout=10)
        assert ws.close_code == 1001
    ends = []

    def read(connection):
        data = b""
        while more := connection.recv(65536):
            data += more
        ends.append(data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"))

    readers = [threading.Thread(target=read, args=[connection]) for connection in streams]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert ends == [True] * 4
    assert daemon.stop() == 0
