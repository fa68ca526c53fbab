"""Chunked request bodies, as clients send them that do not know their body's length: from generators, pipes and proxies."""
import http.client
import json
import subprocess

import httpx2
import pytest

from daemon import is_closed, read_reply

BODY = json.dumps({"prompt": "x", "max_tokens": 3, "seed": 1}).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
HEADERS = {"Content-Type": "application/json"}


def chunks(body, size, extension=b"", trailer=b""):
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x%s\r\n%s\r\n" % (len(p), extension, p) for p in parts) + b"0" + extension + b"\r\n" + trailer + b"\r\n"


@pytest.fixture(scope="module")
def answer(daemon):
    """The reply to the same body with a Content-Length."""
    status, _, reply = daemon.post("/v1/completions", BODY)
    assert status == 200
    return reply["choices"][0]["text"]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("pieces", ["whole", "bytes"])
def test_a_chunked_body_is_the_same_request(daemon, answer, size, pieces):
    data = HEAD + b"\r\n" + chunks(BODY, size, b";a=b", b"X-Sum: 1\r\n")
    with daemon.connect() as connection:
        for part in [data] if pieces == "whole" else [bytes([b]) for b in data]:
            connection.sendall(part)
        status, headers, body = read_reply(connection)
        assert status == 200 and headers["connection"] == "keep-alive"
        assert json.loads(body)["choices"][0]["text"] == answer


def test_requests_follow_one_another_on_a_connection(daemon):
    chunked = HEAD + b"\r\n" + chunks(BODY, 9)
    plain = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
    with daemon.connect() as connection:
        connection.sendall(chunked + plain + chunked)
        data = b""
        while data.count(b"HTTP/1.1 200 OK") < 3 or not data.endswith(b"}"):
            data += connection.recv(65536)
        assert data.count(b'"object":"text_completion"') == 3


def test_http_client_sends_an_iterable(daemon, answer):
    connection = http.client.HTTPConnection(daemon.host, daemon.port, timeout=30)
    connection.request("POST", "/v1/completions", iter([BODY[:5], BODY[5:]]), HEADERS, encode_chunked=True)
    assert json.loads(connection.getresponse().read())["choices"][0]["text"] == answer
    connection.close()


def test_httpx_sends_a_generator(daemon, answer):
    reply = httpx2.post(daemon.url + "/v1/completions", content=(bytes([b]) for b in BODY), headers=HEADERS, timeout=30)
    assert reply.status_code == 200 and reply.json()["choices"][0]["text"] == answer


def test_curl_sends_a_pipe(daemon, answer):
    command = ["curl", "-sS", "-X", "POST", "-H", "Content-Type: application/json", "-T", "-", daemon.url + "/v1/completions"]
    done = subprocess.run(command, input=BODY, capture_output=True, timeout=30, check=True)
    assert json.loads(done.stdout)["choices"][0]["text"] == answer


def test_the_client_is_told_to_continue(daemon):
    with daemon.connect() as connection:
        connection.sendall(HEAD + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(chunks(BODY, 100))
        assert read_reply(connection)[0] == 200


def test_an_endpoint_without_a_body_drops_a_short_one(daemon):
    head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with daemon.connect() as connection:
        connection.sendall(head + chunks(b"x" * 1000, 100))
        assert read_reply(connection)[0] == 200
        connection.sendall(head + chunks(b"x" * 70000, 35000))
        assert read_reply(connection)[0] == 413


def test_a_body_above_the_limit_is_refused_before_it_has_arrived(slow_daemon):
    with slow_daemon.connect() as connection:
        connection.sendall(HEAD + b"\r\n" + b"8000\r\n" + b" " * 0x8000 + b"\r\n8001\r\n")
        status, headers, body = read_reply(connection)
        assert status == 413 and json.loads(body)["error"]["code"] == "body_too_large" and headers["connection"] == "close"
        assert is_closed(connection)


@pytest.mark.parametrize("begin", [b"", b"5\r\n{}", b"2;", b"2\r\n{}\r\n", b"2\r\n{}\r\n0\r\nX: "])
def test_a_chunked_body_that_stalls_is_dropped(slow_daemon, begin):
    with slow_daemon.connect() as connection:
        connection.sendall(HEAD + b"\r\n" + begin)
        status, headers, body = read_reply(connection)
        assert status == 408 and json.loads(body)["error"]["code"] == "request_timeout"
        assert is_closed(connection)
    assert slow_daemon.get("/livez")[0] == 200
