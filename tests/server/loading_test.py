"""A daemon whose port is open while its models are loaded."""
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest

import loading_daemon
from loading_daemon import Lines, loading_daemons
from openapi_test import Document, check
from service_manager import Manager


@pytest.fixture
def start(tmp_path):
    with loading_daemons(tmp_path) as make:
        yield make


def test_it_shows_how_far_the_load_is_and_serves_afterwards(start):
    daemon = start()
    status, headers, text = daemon.ask("/readyz")
    body = json.loads(text)
    assert status == 503 and int(headers["Retry-After"]) > 0
    assert body["error"]["code"] == body["status"] == "loading"
    assert f": {int(100 * body['progress'])} %" in body["error"]["message"] and 0.1 < body["progress"] <= 0.5
    first, second = body["parts"]
    assert first["model"] == "first" and first["bytes_read"] == first["num_bytes"] > 0
    # The file has a header in addition to the weights, which are not read yet.
    assert second["model"] == "second" and second["bytes_read"] == 0 and second["num_bytes"] >= first["num_bytes"]
    check(Document(json.loads(daemon.ask("/openapi.json")[2])), "unready", body)
    assert body["progress"] == pytest.approx(first["num_bytes"] / (first["num_bytes"] + second["num_bytes"]))
    assert daemon.ask("/livez")[0] == daemon.ask("/openapi.json")[0] == daemon.ask("/")[0] == 200
    status, _, text = daemon.ask("/metrics")
    shown = float(re.search(r"^paceline_load_progress (\S+)$", text, re.M)[1])
    assert status == 200 and shown == pytest.approx(body["progress"], abs=1e-6)
    daemon.go_on()
    daemon.wait_until_it_serves()
    assert daemon.ask("/readyz")[0] == 200
    assert "\npaceline_load_progress 1\n" in daemon.ask("/metrics")[2]
    assert [one["id"] for one in json.loads(daemon.ask("/v1/models")[2])["data"]] == ["first", "second"]
    assert daemon.ask("/v1/completions", {"prompt": "abc", "max_tokens": 2, "model": "second"})[0] == 200
    assert daemon.end() == 0


@pytest.mark.parametrize(
    "path, body",
    [
        ("/v1/completions", {"prompt": "abc"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "abc"}]}),
        ("/models/first/v1/completions", {"prompt": "abc"}),
        ("/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": "abc"}]}),
        ("/v1/responses", {"input": "abc"}),
        ("/tokenize", {"prompt": "abc"}),
        ("/v1/models", None),
        ("/v1/models/first", None),
        ("/tokenizer_info?model=first", None),
    ],
)
def test_whoever_needs_a_model_is_told_to_come_back(start, path, body):
    status, headers, text = start().ask(path, body)
    assert status == 503 and int(headers["Retry-After"]) > 0
    error = json.loads(text)["error"]
    assert error.get("code", "loading") == "loading" and "being loaded" in error["message"]


def test_a_websocket_waits_too(start):
    daemon = start()
    host, port = daemon.url.split("//")[1].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(
            b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        reply = connection.recv(4096)
    assert reply.startswith(b"HTTP/1.1 503 ") and b"Retry-After" in reply


def test_keys_are_asked_for_while_it_loads(start, tmp_path):
    (tmp_path / "keys").write_text("sesame\n")
    daemon = start(sections=f"server: {{port: 0, api_keys_file: {tmp_path / 'keys'}}}\n")
    assert daemon.ask("/v1/models")[0] == 401
    assert daemon.ask("/v1/models", headers={"Authorization": "Bearer sesame"})[0] == 503


def test_a_reload_while_it_loads_counts(start, tmp_path):
    (tmp_path / "keys").write_text("sesame\n")
    daemon = start(sections=f"server: {{port: 0, api_keys_file: {tmp_path / 'keys'}}}\n")
    (tmp_path / "keys").write_text("simsim\n")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for_line("keys changed")
    assert daemon.ask("/v1/models", headers={"Authorization": "Bearer sesame"})[0] == 401
    daemon.go_on()
    daemon.wait_until_it_serves()
    assert daemon.ask("/v1/models", headers={"Authorization": "Bearer simsim"})[0] == 200
    assert daemon.end() == 0


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_load(start, sent):
    daemon = start()
    assert daemon.end(sent) == 0
    assert "stopped while loading" in daemon.log.rest()


def test_a_drain_while_it_loads_ends_streams_of_events(start):
    daemon = start()
    with urllib.request.urlopen(daemon.url + "/paceline/events", timeout=30) as stream:
        first = json.loads(stream.readline().removeprefix(b"data: "))
        assert first["state"] == "loading" and first["load_progress"] > 0.1 and first["streams"] == []
        daemon.process.send_signal(signal.SIGTERM)
        events = [json.loads(line.removeprefix(b"data: ")) for line in stream if line.startswith(b"data: ")]
    assert events[-1]["state"] == "draining"
    assert daemon.process.wait(timeout=30) == 0


def failed(daemon):
    """Exit code and last line of a daemon whose load must fail."""
    code = daemon.process.wait(timeout=30)
    assert daemon.output.rest() == ""
    return code, daemon.log.rest().splitlines()[-1]


def test_a_wrong_template_ends_it_as_a_wrong_configuration(start):
    daemon = start()
    daemon.go_on("{% for %}")
    code, line = failed(daemon)
    assert code == 78 and "chat.pipe" in line


def test_a_missing_model_ends_it_as_unavailable(start):
    code, line = failed(start(second="{name: second, path: /nowhere.gguf}"))
    assert code == 69 and "/nowhere.gguf" in line


def test_systemd_hears_how_far_it_is_and_ready_only_at_the_end(start, tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    daemon = start(environment={"NOTIFY_SOCKET": str(tmp_path / "notify")})
    percent = int(100 * json.loads(daemon.ask("/readyz")[2])["progress"])
    told = [manager.next()]
    while told[-1] != {"STATUS": f"loading {percent} %"}:
        told.append(manager.next())
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for_line("configuration read again")
    daemon.go_on()
    daemon.wait_until_it_serves()
    while "READY" not in told[-1]:
        told.append(manager.next())
    assert all(set(one) == {"STATUS"} and one["STATUS"].startswith("loading ") for one in told[:-1]), told
    assert told[-1] == {"READY": "1", "STATUS": f"listening on {daemon.url}"}
    assert daemon.end() == 0


def test_many_questions_do_not_hold_up_the_load(start):
    daemon = start()
    statuses = []  # appending is atomic
    askers = [threading.Thread(target=lambda: statuses.extend(daemon.ask("/readyz")[0] for _ in range(20))) for _ in range(8)]
    for one in askers:
        one.start()
    daemon.go_on()
    daemon.wait_until_it_serves()
    for one in askers:
        one.join()
    assert len(statuses) == 160 and set(statuses) <= {200, 503}
    assert daemon.end() == 0


# What these tests stand on.


def test_a_silent_process_fails_a_test_instead_of_holding_it(monkeypatch):
    monkeypatch.setattr(loading_daemon, "PATIENCE", 0.1)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        lines = Lines(process.stdout)
        with pytest.raises(AssertionError, match="no further line"):
            lines.next()
        process.stdin.close()
        process.wait(timeout=30)


def test_a_daemon_that_never_loads_is_not_left_behind(tmp_path):
    kept = []
    popen = subprocess.Popen
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError, match="never logged"), loading_daemons(tmp_path) as make:
        patch.setattr(subprocess, "Popen", lambda *arguments, **options: kept.append(popen(*arguments, **options)) or kept[-1])
        patch.setattr(loading_daemon.LoadingDaemon, "wait_until_it_loads", lambda daemon: daemon.process.kill() or daemon.wait_for_line("nothing"))
        make()
    assert all(one.poll() is not None for one in kept) and kept


def test_a_template_nobody_reads_fails_a_test_instead_of_holding_it(start):
    daemon = start()
    daemon.process.kill()
    daemon.process.wait(timeout=30)
    with pytest.raises(OSError):
        daemon.go_on()
