"""The daemon's log. A reader that does not read cannot block the daemon."""
import json
import os
import re
import signal
import subprocess

import pytest

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info|warning|error) \S.*")


def test_text_lines_have_one_form(start_daemon):
    daemon = start_daemon(**{"logging.level": "debug"})
    daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 1})
    list_models = daemon.get("/v1/models", {"x-request-id": "mine"})
    assert list_models[0] == 200
    daemon.terminate()
    _, log = daemon.process.communicate(timeout=30)
    lines = log.splitlines()
    assert all(LINE.fullmatch(line) for line in lines), log
    assert any(f"info serving address={daemon.url} models=hash" in line for line in lines)
    assert any("request endpoint=models status=200" in line and line.endswith("request_id=mine") for line in lines)
    assert " info stopped" in lines[-1]


def test_a_model_that_lists_no_drafters_says_what_it_drafts_with():
    process = subprocess.Popen([os.environ["PACELINE_BIN"], "serve", "--model", "hash", "--port", "0"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("listening on ")
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    assert 'drafters model=hash names=ngram,suffix,prediction,forced default=auto why="none listed' in log
    assert 'draft lengths model=hash levels="ngram:5 suffix:5 prediction:16 forced:16 auto:16"' in log


def test_json_lines_are_objects_of_the_same_fields(start_daemon):
    daemon = start_daemon(**{"logging.format": "json", "logging.level": "debug"})
    daemon.get("/v1/models")
    daemon.configure("nonsense: 1\n")
    daemon.reload()
    daemon.terminate()
    _, log = daemon.process.communicate(timeout=30)
    events = [json.loads(line) for line in log.splitlines()]
    assert all(list(event)[:3] == ["time", "level", "message"] for event in events)
    [request] = [event for event in events if event.get("endpoint") == "models"]
    assert request["status"] == 200 and request["level"] == "debug"
    [refusal] = [event for event in events if event["level"] == "error"]
    assert "nonsense" in refusal["reason"]


def test_a_file_takes_the_log_and_is_opened_anew_on_reload(start_daemon, tmp_path):
    log = tmp_path / "log"
    daemon = start_daemon(**{"logging.file": log})
    assert "serving" in log.read_text()
    log.rename(tmp_path / "log.1")
    daemon.reload()
    assert daemon.stop() == 0
    assert "stopped" in log.read_text() and "stopped" not in (tmp_path / "log.1").read_text()


def test_a_log_that_cannot_be_opened_is_a_configuration_error(tmp_path, start_daemon):
    with pytest.raises(RuntimeError, match="logging.file"):
        start_daemon(**{"logging.file": tmp_path / "no" / "log"})


def test_prompts_outputs_and_keys_are_not_logged(start_daemon, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("canary-key\n")
    daemon = start_daemon(**{"logging.level": "debug", "server.api_keys_file": keys})
    for key in ("canary-key", "canary-wrong"):
        page = {"Authorization": f"Bearer {key}"}
        outputs = daemon.post("/v1/completions", {"prompt": "canary-prompt", "max_tokens": 30, "ignore_eos": True}, page)[2]
        daemon.post("/v1/chat/completions", {"messages": [{"role": "canary-role", "content": "canary-content"}]}, page)
        daemon.post("/v1/completions", {"prompt": "canary-prompt", "model": "canary-model"}, page)
        daemon.get("/canary-path?canary-query=1", page)
        daemon.get("/v1/responses/canary-response", page)
    keys.write_text("canary key\n")  # refused, without a word of it
    assert "error" in outputs
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for(lambda: daemon.metric("paceline_config_reloads_total", result="refused") == 1)
    daemon.terminate()
    _, log = daemon.process.communicate(timeout=30)
    assert log.count(" debug request ") >= 5 and log.count(" debug refused ") == 6
    assert log.count("configuration refused") == 1 and "canary" not in log


def serve_well(daemon):
    for _ in range(30):
        assert daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 3})[0] == 200


def test_a_full_disk_under_the_log_disturbs_nobody(start_daemon):
    with open("/dev/full", "w") as full:
        daemon = start_daemon(stderr=full, **{"logging.level": "debug"})
    serve_well(daemon)
    assert daemon.metric("paceline_log_lines_dropped_total") >= 30
    assert daemon.stop() == 0


def test_a_pipe_that_nobody_reads_disturbs_nobody(start_daemon):
    daemon = start_daemon(**{"logging.level": "debug"})
    with daemon.connect() as connection:
        # More lines than the pipe holds, over one connection.
        request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nx-request-id: " + b"i" * 120 + b"\r\n\r\n"
        received = b""
        for _ in range(10):
            connection.sendall(request * 100)
            while received.count(b'{"status":"ok"}') < 100:
                received += connection.recv(65536)
            received = b""
    assert daemon.metric("paceline_log_lines_dropped_total") > 0
    serve_well(daemon)
    daemon.terminate()
    assert daemon.process.wait(timeout=30) == 0


def test_a_closed_standard_error_is_not_taken_by_a_client():
    """If descriptor 2 is closed, a socket would get this number and receive the log."""
    script = f"exec {os.environ['PACELINE_BIN']} serve --model hash --port 0 2>&-"
    with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("listening on ")
        assert os.readlink(f"/proc/{process.pid}/fd/2") == "/dev/null"
        process.terminate()
        assert process.wait(timeout=30) == 0
