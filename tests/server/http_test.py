"""HTTP at the level of bytes: framing, limits, disconnects, health, drain."""
import json
import threading

import pytest

from daemon import is_closed, read_reply

BODY = json.dumps({"prompt": "x", "max_tokens": 1}).encode()


def request_bytes(body=BODY, headers=(), line="POST /v1/completions HTTP/1.1"):
    head = [line, "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SMUGGLING = {
    "te identity": (400, POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    "te xchunked": (400, POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "te capitals": (400, POST + b"Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"),
    "te blank": (400, POST + b"Transfer-Encoding: chunked \r\n\r\n0\r\n\r\n"),
    "te list": (400, POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    "two te": (400, POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "cl te": (400, POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "te cl": (400, POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    "te 1.0": (400, CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n"),
    "chunk bare lf": (400, CHUNKED + b"2\n{}\n0\n\n"),
    "chunk sign": (400, CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n"),
    "chunk 0x": (400, CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n"),
    "chunk blank": (400, CHUNKED + b"2 \r\n{}\r\n0\r\n\r\n"),
    "chunk overflow": (400, CHUNKED + b"10000000000000002\r\n{}\r\n0\r\n\r\n"),
    "chunk too large": (413, CHUNKED + b"7fffffffffffffff\r\n{}\r\n0\r\n\r\n"),
    "chunk runs on": (400, CHUNKED + b"2\r\n{}0\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "chunk extension lf": (400, CHUNKED + b'2;a="\n"\r\n{}\r\n0\r\n\r\n'),
    "chunk extensions": (400, CHUNKED + (b"1;" + b"e" * 300 + b"\r\n \r\n") * 20),
    "trailers": (400, CHUNKED + b"0\r\n" + b"x: 1\r\n" * 1500 + b"\r\n"),
    "trailer for a request": (400, CHUNKED + b"0\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "two cl": (400, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
    "cl list": (400, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2, 2\r\n\r\n{}"),
    "no host": (400, b"GET /livez HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
    "fold": (400, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n"),
    "bare lf": (400, b"GET /livez HTTP/1.1\nHost: localhost\n\n"),
    "other host": (400, b"GET http://evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "many headers": (431, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"x: 1\r\n" * 1500 + b"\r\n"),
    "long head": (431, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nx: " + b"a" * 20000 + b"\r\n\r\n"),
    "tls": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64),
    "huge body": (413, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 999999999\r\n\r\n"),
}


@pytest.mark.parametrize("name", SMUGGLING)
@pytest.mark.parametrize("pieces", ["whole", "bytes", "lines"])
def test_malformed_requests_get_one_reply_and_a_closed_connection(daemon, name, pieces):
    status, data = SMUGGLING[name]
    if pieces == "bytes" and len(data) > 1000:
        pytest.skip("says nothing more")
    parts = {"whole": [data], "bytes": [bytes([b]) for b in data], "lines": [p + b"\n" for p in data.split(b"\n")]}[pieces]
    with daemon.connect() as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before the end
        reply = read_reply(connection)
        assert reply[0] == status
        assert "error" in json.loads(reply[2])
        assert reply[1]["connection"] == "close"
        connection.shutdown(1)
        rest = connection.recv(65536)
        assert rest == b"", "a second reply"
    assert daemon.get("/livez")[0] == 200


def test_keep_alive_and_pipelining(daemon):
    with daemon.connect() as connection:
        connection.sendall(request_bytes() * 3)
        data = b""
        while data.count(b"HTTP/1.1 200 OK") < 3 or not data.endswith(b"}"):
            data += connection.recv(65536)
        assert data.count(b'"object":"text_completion"') == 3
        connection.sendall(request_bytes(headers=["Connection: close"]))
        assert read_reply(connection)[1]["connection"] == "close"
        assert is_closed(connection)


def test_expect_continue(daemon):
    with daemon.connect() as connection:
        head, _, body = request_bytes(headers=["Expect: 100-continue"]).partition(b"\r\n\r\n")
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert read_reply(connection)[0] == 200


def test_streams_suit_old_clients(daemon):
    body = json.dumps({"prompt": "x", "max_tokens": 2, "stream": True}).encode()
    with daemon.connect() as connection:
        connection.sendall(request_bytes(body, line="POST /v1/completions HTTP/1.0"))
        data = b""
        while more := connection.recv(65536):
            data += more
        assert b"Transfer-Encoding" not in data and data.endswith(b"data: [DONE]\n\n")


def test_head_options_and_wrong_methods(daemon):
    with daemon.connect() as connection:
        connection.sendall(b"HEAD /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        data = connection.recv(65536)
        assert data.startswith(b"HTTP/1.1 200") and data.endswith(b"\r\n\r\n") and b"Content-Length: 15" in data
    status, headers, text = daemon.get("/v1/completions")
    assert status == 405 and headers["Allow"] == "POST, OPTIONS" and "error" in json.loads(text)
    assert daemon.get("/nothing")[0] == 404
    assert daemon.post("/v1/completions", {"prompt": "x"}, {"Content-Type": "text/plain"})[0] == 415


def test_slow_heads_and_bodies_are_dropped_while_others_are_served(slow_daemon):
    slow_head, slow_body = slow_daemon.connect(), slow_daemon.connect()
    slow_head.sendall(b"GET /livez HTT")
    slow_body.sendall(request_bytes()[:-5])
    assert slow_daemon.get("/livez")[0] == 200
    for connection in (slow_head, slow_body):
        assert read_reply(connection)[0] == 408
        assert is_closed(connection)
        connection.close()


def test_a_client_that_leaves_cancels_within_a_step(slow_daemon):
    for stream in (True, False):
        before = slow_daemon.metric("paceline_disconnect_cancels_total")
        body = json.dumps({"prompt": "x", "max_tokens": 3000, "ignore_eos": True, "stream": stream}).encode()
        connection = slow_daemon.connect()
        connection.sendall(request_bytes(body))
        slow_daemon.wait_for(lambda: slow_daemon.metric("paceline_requests_running") == 1)
        connection.close()
        slow_daemon.wait_until_idle()
        assert slow_daemon.metric("paceline_disconnect_cancels_total") == before + 1
        assert slow_daemon.metric("paceline_requests_finished_total", reason="cancelled") >= 1


def test_many_clients_that_leave_at_odd_moments_leave_nothing_behind(slow_daemon):
    body = json.dumps({"prompt": "x" * 50, "max_tokens": 200, "stream": True}).encode()
    whole = request_bytes(body)

    def visit(i):
        with slow_daemon.connect() as connection:
            connection.sendall(whole[: len(whole) if i % 3 else i * 7])
            for _ in range(i % 5):
                connection.recv(64)

    threads = [threading.Thread(target=visit, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    slow_daemon.wait_until_idle()
    reply = slow_daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 2})
    assert reply[0] == 200


def test_a_request_ends_at_its_own_deadline(slow_daemon):
    body = {"prompt": "x", "max_tokens": 3000, "ignore_eos": True, "deadline_ms": 200}
    status, _, reply = slow_daemon.post("/v1/completions", body)
    assert status == 408 and reply["error"]["code"] == "deadline_exceeded"
    assert slow_daemon.post("/v1/completions", body | {"max_tokens": 2, "deadline_ms": 60000})[0] == 200
    assert slow_daemon.post("/v1/completions", body | {"deadline_ms": 0})[2]["error"]["param"] == "deadline_ms"
    slow_daemon.wait_until_idle()


def test_tokenize_and_back(daemon):
    status, _, reply = daemon.post("/tokenize", {"prompt": "héllo"})
    assert status == 200 and reply["count"] == len(reply["tokens"]) and reply["max_model_len"] == 4096
    assert "héllo" in daemon.post("/detokenize", {"tokens": reply["tokens"]})[2]["prompt"]
    chat = daemon.post("/tokenize", {"messages": [{"role": "user", "content": "hi"}]})[2]
    assert daemon.post("/detokenize", {"tokens": chat["tokens"]})[2]["content"] == "<user>hi<assistant>"


def test_keys(start_daemon, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# team\nsecret-one\nsecret-two\n")
    daemon = start_daemon(**{"server.api_keys_file": keys})
    assert daemon.get("/v1/models")[0] == 401
    assert daemon.get("/v1/models")[1]["WWW-Authenticate"] == "Bearer"
    for key in ("secret-one", "secret-two"):
        assert daemon.get("/v1/models", {"Authorization": f"Bearer {key}"})[0] == 200
    for path in ("/livez", "/readyz", "/healthz", "/health", "/metrics"):
        assert daemon.get(path)[0] == 200


def test_rebinding_is_refused(daemon):
    with daemon.connect() as connection:
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert read_reply(connection)[0] == 403


def test_a_taken_port_is_an_error(daemon, start_daemon):
    with pytest.raises(RuntimeError, match="taken"):
        start_daemon(**{"server.port": daemon.port})


def test_an_open_bind_needs_keys(start_daemon):
    with pytest.raises(RuntimeError, match="keys"):
        start_daemon(**{"server.host": "0.0.0.0"})


def test_drain_finishes_what_runs_and_refuses_the_rest(start_daemon):
    daemon = start_daemon(**{"models.0.hash.pass_work": 20000000})  # it outlasts what is asked meanwhile
    running, waiting, fresh = daemon.connect(), daemon.connect(), daemon.connect()
    body = json.dumps({"prompt": "x", "max_tokens": 20, "ignore_eos": True}).encode()
    running.sendall(request_bytes(body))
    waiting.sendall(b"GET /readyz HT")
    daemon.wait_for(lambda: daemon.metric("paceline_requests_running") == 1)
    daemon.terminate()
    daemon.wait_for(lambda: daemon.get("/readyz")[0] == 503)
    assert daemon.get("/livez")[0] == 200, "the listener stays open as long as a request runs"
    refused = daemon.post("/v1/completions", {"prompt": "x"})
    assert refused[0] == 503 and refused[2]["error"]["code"] == "draining"
    waiting.sendall(b"TP/1.1\r\nHost: localhost\r\n\r\n")
    assert read_reply(waiting)[0] == 503
    fresh.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert read_reply(fresh)[0] == 503, "it had connected before, and asked nothing yet"
    reply = read_reply(running)
    assert reply[0] == 200 and json.loads(reply[2])["usage"]["completion_tokens"] == 20
    assert daemon.stop() == 0


def test_no_reply_shows_internals(daemon):
    replies = [daemon.get(path)[2] for path in ("/nothing", "/v1/models", "/v1/responses", "/readyz", "/livez")]
    for body in ({}, {"prompt": 1}, {"prompt": "x", "model": "m"}, {"prompt": [99999]}, {"prompt": "x" * 9000}):
        replies.append(json.dumps(daemon.post("/v1/completions", body)[2]))
    replies.append(json.dumps(daemon.post("/v1/chat/completions", {"messages": [{"role": "user", "content": []}]})[2]))
    for text in replies:
        for trace in ("0x7f", "/home/", "/tmp/", "std::", "boost", ".cpp"):
            assert trace not in text, text


def test_keys_share_a_model_s_queue_and_only_some_may_push_ahead(start_daemon, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("greedy\nmodest best_priority=-5\n")
    daemon = start_daemon(
        **{"server.api_keys_file": str(keys), "models.0.hash.pass_work": 2000000, "models.0.max_running": 1, "models.0.max_waiting": 7}
    )
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer greedy\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    body = json.dumps({"prompt": "x", "max_tokens": 500, "ignore_eos": True, "stream": True, "speculation": {"drafter": "none"}})
    waiting = []
    for _ in range(6):
        one = daemon.connect()
        one.sendall((head % (len(body), body)).encode())
        waiting.append(one)
    daemon.wait_for(lambda: daemon.metric("paceline_open_requests") == 6)

    def ask(key, **fields):
        status, _, reply = daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 1} | fields, {"Authorization": f"Bearer {key}"})
        return status, reply.get("error", {}).get("code")

    assert ask("greedy") == (429, "queue_full")
    assert ask("modest", priority=-5) == (200, None), "its place, and before those that wait"
    assert ask("modest", priority=-6) == (403, "priority_not_allowed")
    assert ask("greedy", priority=-1) == (403, "priority_not_allowed")
    for one in waiting:
        one.close()
    daemon.wait_for(lambda: daemon.metric("paceline_open_requests") == 0)
    assert ask("greedy", priority=1) == (200, None)
