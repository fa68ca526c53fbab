"""Whatever is wrong: one clear line or one HTTP error, the exit code that is documented, and everybody else is served."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import threading

import pytest

from daemon import read_reply

PROGRAM = os.environ["PACELINE_BIN"]
TINY_MODEL = pathlib.Path(os.environ["PACELINE_BINARY_DIR"]) / "bin" / "tiny_model_tool"
USAGE, UNAVAILABLE, CONFIG = 2, 69, 78


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Models that fit, do not fit and are none."""
    folder = tmp_path_factory.mktemp("files")
    whole = folder / "tiny.gguf"
    subprocess.run([TINY_MODEL, "write", whole], check=True)
    data = whole.read_bytes()
    (folder / "half.gguf").write_bytes(data[: len(data) // 2])
    (folder / "text.gguf").write_text("this is no model")
    assert data.count(b"<|im_start|>") == 1
    (folder / "other.gguf").write_bytes(data.replace(b"<|im_start|>", b"<|im_begin|>"))  # the same but for the spelling of one token
    (folder / "template.jinja").write_text("{% for %}")
    (folder / "empty_keys").write_text("# none yet\n")
    return folder


def start(files, yaml="", arguments=()):
    """Exit code and standard error of a start that must fail."""
    config = files / "bad.yaml"
    config.write_text(yaml.replace("FILES", str(files)))
    command = [PROGRAM, "serve", *(["--config", str(config)] if yaml else []), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "listening" not in done.stdout
    return done.returncode, done.stderr


HASH = "version: 1\nmodels: [{kind: hash}]\n"
STARTS = {
    "no such model": (UNAVAILABLE, "version: 1\nmodels: [{path: FILES/none.gguf}]", "none.gguf"),
    "a truncated model": (UNAVAILABLE, "version: 1\nmodels: [{path: FILES/half.gguf}]", "half.gguf"),
    "no model at all": (UNAVAILABLE, "version: 1\nmodels: [{path: FILES/text.gguf}]", "text.gguf"),
    "a folder": (UNAVAILABLE, "version: 1\nmodels: [{path: FILES}]", "config.json"),
    "a drafter of another vocabulary": (
        CONFIG,
        "version: 1\nmodels: [{path: FILES/tiny.gguf, drafters: [{name: small, kind: model, path: FILES/other.gguf}]}]",
        "drafter small",
    ),
    "a broken template": (CONFIG, HASH[:-3] + ", chat_template: FILES/template.jinja}]", "template.jinja"),
    "too little memory": (UNAVAILABLE, "version: 1\nmodels: [{path: FILES/tiny.gguf}]\nengine: {memory_budget: 1KiB}", "memory_budget"),
    "no YAML": (CONFIG, "version: 1\nmodels: [", "bad.yaml:"),
    "an unknown key": (CONFIG, HASH + "serve: {port: 1}", "bad.yaml:3:1"),
    "a key twice": (CONFIG, HASH + "server: {port: 1, port: 2}", "bad.yaml:3:"),
    "a wrong type": (CONFIG, HASH + "server: {port: many}", "server.port"),
    "out of range": (CONFIG, HASH + "server: {port: 70000}", "65535"),
    "no version": (CONFIG, "models: [{kind: hash}]", "version"),
    "an alias": (CONFIG, "version: 1\nmodels: &m [{kind: hash}]", "bad.yaml:2:"),
    "no keys": (CONFIG, HASH + "server: {api_keys_file: FILES/none}", "none"),
    "no file of keys": (CONFIG, HASH + "server: {api_keys_file: FILES/tiny.gguf}", "tiny.gguf:"),
    "a file without a key": (CONFIG, HASH + "server: {api_keys_file: FILES/empty_keys}", "empty_keys"),
    "no address": (CONFIG, HASH + "server: {host: nowhere, allow_unauthenticated: true}", "nowhere"),
    "an open server": (CONFIG, HASH + "server: {host: 0.0.0.0}", "server.host"),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_start_that_cannot_be_ends_with_one_line_that_says_why(files, name):
    code, yaml, words = STARTS[name]
    status, stderr = start(files, yaml)
    complaints = [line for line in stderr.splitlines() if " info " not in line]
    assert status == code, stderr
    assert len(complaints) == 1 and words in complaints[0]


@pytest.mark.parametrize("arguments", [["--prot", "1"], ["--set", "server.port"], ["--port", "many"], ["--config"]])
def test_a_wrong_command_line_is_2(files, arguments):
    status, stderr = start(files, arguments=arguments)
    assert status == USAGE and stderr.strip()


def test_a_wrong_option_of_the_command_line_is_78(files):
    status, stderr = start(files, arguments=["--model", "hash", "--set", "server.prot=1"])
    assert status == CONFIG and "unknown key 'prot'" in stderr


def test_every_flag_of_the_command_line_is_an_option():
    arguments = ["--model", "hash", "--host", "127.0.0.1", "--port", "0", "--threads", "1", "--set", "scheduler.overlap=off"]
    done = subprocess.run([PROGRAM, "serve", *arguments, "--print-config"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "threads: 1 " in line and "command line" in line]


def test_a_file_full_of_wrong_keys_is_refused_in_proportion_to_its_length(tmp_path):
    """When each key was compared with all keys before it, this file took 26 s of processor time."""
    config = tmp_path / "keys.yaml"
    config.write_text("version: 1\n" + "".join(f"k{i}: 1\n" for i in range(95_000)))
    bound = (10, 10)
    done = subprocess.run(
        [PROGRAM, "check-config", config],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, bound),
    )
    assert done.returncode == CONFIG, done.returncode
    assert "and 94950 more errors" in done.stderr


def check(files, yaml):
    config = files / "checked.yaml"
    config.write_text(yaml.replace("FILES", str(files)))
    done = subprocess.run([PROGRAM, "check-config", config], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr.splitlines()


NAMED_FILES = """version: 1
models:
  - {path: FILES/none.gguf, chat_template: FILES/none.jinja}
  - {name: half, path: FILES/half.gguf}
  - {name: tiny, path: FILES/tiny.gguf, drafters: [{name: small, kind: model, path: FILES/gone.gguf}, {name: head, kind: medusa, path: FILES/head}]}
server: {api_keys_file: FILES/no_keys}
"""


def test_a_check_opens_the_files_that_are_named(files):
    status, stdout, lines = check(files, NAMED_FILES)
    assert status == UNAVAILABLE and stdout == ""
    for option, name, line in (
        ("models.0.path", "none.gguf", 3),
        ("models.0.chat_template", "none.jinja", 3),
        ("models.1.path", "half.gguf", 4),
        ("models.2.drafters.0.path", "gone.gguf", 5),
        ("models.2.drafters.1.path", "head", 5),
        ("server.api_keys_file", "no_keys", 6),
    ):
        assert any(f"checked.yaml:{line}:" in one and f": {option}: " in one and name in one for one in lines), (option, lines)
    assert len(lines) == 6
    assert check(files, "version: 1\nmodels: [{path: FILES/tiny.gguf}]\n")[0] == 0


def test_a_check_reports_values_rules_and_files_in_one_batch(files):
    status, _, lines = check(files, NAMED_FILES.replace("server: {", "logging: {level: loud}\nserver: {host: nowhere, "))
    assert status == CONFIG and len(lines) == 8
    assert any("logging.level" in one for one in lines) and any("server.host" in one for one in lines)


def test_a_context_above_the_models_own_is_told(files, start_daemon):
    yaml = "version: 1\nmodels: [{path: FILES/tiny.gguf, context_length: 100000}]\n"
    status, _, lines = check(files, yaml)
    assert status == 0 and len(lines) == 1 and "models.0.context_length: 100000 is above the model's own" in lines[0]
    daemon = start_daemon(**{"models.0.kind": "file", "models.0.path": files / "tiny.gguf", "models.0.context_length": 100000})
    served = json.loads(daemon.get("/v1/models")[2])["data"][0]["max_model_len"]
    daemon.terminate()
    log = daemon.process.communicate(timeout=30)[1]
    assert f"configured=100000 used={served}" in log
    run = [PROGRAM, "run", "--model", files / "tiny.gguf", "--prompt", "ab", "--max-tokens", "1", "--ctx-size", "100000"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"--ctx-size 100000 is above the model's own {served}" in done.stderr


def test_a_taken_port_is_69(files, daemon):
    status, stderr = start(files, HASH, ["--port", str(daemon.port)])
    assert status == UNAVAILABLE and f"{daemon.port}: the port is taken" in stderr


def test_a_taken_port_and_missing_keys_are_told_before_the_models_are_loaded(files, daemon):
    """The model that cannot be loaded stands for one that takes minutes."""
    missing = "version: 1\nmodels: [{path: FILES/none.gguf}]\n"
    for arguments, code, words in (
        (["--port", str(daemon.port)], UNAVAILABLE, "the port is taken"),
        (["--set", f"server.api_keys_file={files}/no_keys"], CONFIG, "no_keys"),
    ):
        status, stderr = start(files, missing, arguments)
        assert status == code and words in stderr and "none.gguf" not in stderr, stderr


BIG = "x" * 5000
REQUESTS = [
    # path, body, status, field, code
    ("/v1/completions", b"{", 400, None, "invalid_json"),
    ("/v1/completions", b'{"prompt": "x"} {}', 400, None, "invalid_json"),
    ("/v1/completions", b'{"prompt": "\xff"}', 400, None, "invalid_json"),
    ("/v1/completions", b"[" * 100000, 400, None, "invalid_json"),
    ("/v1/completions", {}, 400, "prompt", "invalid_value"),
    ("/v1/completions", {"prompt": []}, 400, "prompt", "invalid_value"),
    ("/v1/completions", {"prompt": [300]}, 400, "prompt", "invalid_value"),
    ("/v1/completions", {"prompt": [-1]}, 400, "prompt[0]", "invalid_value"),
    ("/v1/completions", {"prompt": ["x", [1]]}, 400, "prompt[1]", "invalid_value"),
    ("/v1/completions", {"prompt": BIG}, 400, "prompt", "context_length_exceeded"),
    ("/v1/completions", {"prompt": "x", "max_tokens": 5000}, 400, "max_tokens", "context_length_exceeded"),
    ("/v1/completions", {"prompt": "x", "temperature": 3}, 400, "temperature", "invalid_value"),
    ("/v1/completions", {"prompt": "x", "model": "other"}, 404, "model", "model_not_found"),
    ("/v1/completions", {"prompt": "x", "speculation": {"drafter": "other"}}, 400, "speculation.drafter", "invalid_value"),
    ("/v1/completions", {"prompt": "x", "logprobs": 6}, 400, "logprobs", "invalid_value"),
    ("/v1/completions", {"prompt": "x", "suffix": "y"}, 400, "suffix", "unsupported_parameter"),
    ("/v1/chat/completions", {"messages": []}, 400, "messages", "invalid_value"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": BIG}]}, 400, "messages", "context_length_exceeded"),
    ("/v1/responses", {"input": 1}, 400, "input", "invalid_value"),
    ("/v1/responses", {"input": BIG}, 400, "input", "context_length_exceeded"),
    ("/tokenize", {"prompt": 1}, 400, "prompt", "invalid_value"),
    ("/detokenize", {"tokens": [300]}, 400, "tokens", "invalid_value"),
]
STREAM = {"prompt": "steady", "max_tokens": 200, "seed": 9, "ignore_eos": True, "stream": True}


def open_stream(daemon, **changes):
    body = json.dumps(STREAM | changes).encode()
    connection = daemon.connect()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def rest_of(connection):
    """Status and text of a stream, to its end."""
    data = b""
    while more := connection.recv(65536):
        data += more
    events = [line[6:] for line in data.decode().splitlines() if line.startswith("data: {")]
    return int(data.split()[1]), "".join(json.loads(event)["choices"][0]["text"] for event in events), data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_bad_requests_name_field_and_rule_and_disturb_no_stream(start_daemon):
    daemon = start_daemon(**{"models.0.hash.pass_work": 200000})
    whole = daemon.post("/v1/completions", STREAM | {"stream": False})[2]["choices"][0]["text"]
    stream = open_stream(daemon)
    for path, body, status, field, code in REQUESTS:
        answer = daemon.post(path, body)
        error = answer[2]["error"]
        assert (answer[0], error["param"], error["code"]) == (status, field, code), (path, body, error)
        assert field is None or field.split("[")[0].split(".")[-1] in error["message"] or code == "model_not_found"
    status, text, ended = rest_of(stream)
    assert status == 200 and text == whole and ended
    daemon.wait_until_idle()


def test_a_full_queue_refuses_and_what_runs_goes_on(start_daemon):
    daemon = start_daemon(**{"models.0.hash.pass_work": 200000, "models.0.max_running": 1, "models.0.max_waiting": 1})
    running = open_stream(daemon)
    daemon.wait_for(lambda: daemon.metric("paceline_requests_running") == 1)
    waiting = open_stream(daemon)
    daemon.wait_for(lambda: daemon.metric("paceline_requests_waiting") == 1)
    status, headers, reply = daemon.post("/v1/completions", STREAM | {"stream": False})
    assert status == 429 and reply["error"]["code"] == "queue_full" and int(headers["Retry-After"]) >= 1
    first, second = rest_of(running), rest_of(waiting)
    assert first == second and first[0] == 200
    daemon.wait_until_idle()
    assert daemon.metric("paceline_queue_full_rejections_total") == 1


def test_a_full_pool_makes_requests_wait_and_changes_none(start_daemon):
    """A cell of the hash model has 16 bytes: the budget holds one request of full length, and these want four."""
    daemon = start_daemon(**{"models.0.context_length": 512, "engine.memory_budget": "8KiB"})
    reference = [rest_of(open_stream(daemon, seed=seed, max_tokens=300)) for seed in range(4)]
    streams = [open_stream(daemon, seed=seed, max_tokens=300) for seed in range(4)]
    results = [None] * 4

    def read(i):
        results[i] = rest_of(streams[i])

    readers = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert results == reference and all(status == 200 for status, _, _ in results)
    assert daemon.metric("paceline_preemptions_total") + daemon.metric("paceline_evictions_total") > 0
    daemon.wait_until_idle()


def test_a_drafter_with_a_model_of_its_own_works_from_files(files, start_daemon):
    overrides = {
        "models.0.kind": "file",
        "models.0.path": files / "tiny.gguf",
        "models.0.context_length": 0,
        "models.0.drafters.1.name": "small",
        "models.0.drafters.1.kind": "model",
        "models.0.drafters.1.path": files / "tiny.gguf",
    }
    daemon = start_daemon(**overrides)
    body = {"prompt": "ab", "max_tokens": 20, "temperature": 0, "ignore_eos": True}
    plain = daemon.post("/v1/completions", body | {"speculation": {"drafter": "none"}})[2]
    drafted = daemon.post("/v1/completions", body | {"speculation": {"drafter": "small", "draft_length": 3}})[2]
    assert drafted["choices"][0]["text"] == plain["choices"][0]["text"]
    figures = drafted["metrics"]["speculative_decoding"]
    assert figures["draft_acceptance_rate"] == 1, "it is the same model"
    daemon.wait_until_idle()
    assert daemon.metric("paceline_draft_busy_seconds_total") > 0


def end_of(stream, data):
    """Status, the last event, and whether the chunked body was ended as it should be; `data` is its beginning."""
    while more := stream.recv(65536):
        data += more
    events = [line[6:] for line in data.decode().splitlines() if line.startswith("data: {")]
    return int(data.split()[1]), json.loads(events[-1]), data.endswith(b"\r\n0\r\n\r\n")


def test_a_request_that_is_not_streamed_gets_503_when_the_drain_has_ended(start_daemon):
    daemon = start_daemon(**{"shutdown.drain_timeout": "100ms", "models.0.hash.pass_work": 20000000})
    request = open_stream(daemon, stream=False)
    daemon.wait_for(lambda: daemon.metric("paceline_requests_running") == 1)
    daemon.terminate()
    status, headers, body = read_reply(request)
    assert status == 503 and json.loads(body)["error"]["code"] == "draining" and headers["connection"] == "close"
    assert daemon.process.wait(timeout=30) == 0


def draining_daemon(start_daemon, **overrides):
    """A daemon that is stopped while a stream is running."""
    daemon = start_daemon(**{"models.0.hash.pass_work": 500000, **overrides})
    stream = open_stream(daemon)
    daemon.wait_for(lambda: daemon.metric("paceline_requests_running") == 1)
    daemon.terminate()
    return daemon, stream


def test_a_second_term_signal_changes_nothing(start_daemon):
    daemon, stream = draining_daemon(start_daemon)
    daemon.process.send_signal(signal.SIGTERM)
    status, _, ended = rest_of(stream)
    assert status == 200 and ended
    assert daemon.process.wait(timeout=30) == 0


def test_an_interrupt_during_the_drain_ends_it_at_once(start_daemon):
    daemon, stream = draining_daemon(start_daemon)
    while "draining" not in daemon.process.stderr.readline():
        pass
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(timeout=30) in (0, -signal.SIGINT)
    stream.close()


def test_what_has_not_ended_when_the_drain_has_is_cut_and_the_exit_is_0(start_daemon):
    daemon = start_daemon(**{"shutdown.drain_timeout": "100ms", "models.0.hash.pass_work": 20000000})
    stream = open_stream(daemon)
    data = b""
    while b"data: {" not in data:
        data += stream.recv(65536)
    daemon.terminate()
    status, last, whole = end_of(stream, data)
    assert status == 200 and last["error"]["code"] == "draining" and whole
    assert daemon.process.wait(timeout=30) == 0
    assert "before every request had ended" in daemon.process.stderr.read()


@pytest.mark.parametrize("signalled", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_load(tmp_path, signalled):
    """A million tokens take seconds to lay out: they stand for a model that takes minutes."""
    config = tmp_path / "daemon.yaml"
    config.write_text("version: 1\nmodels: [{kind: hash, hash: {vocab_size: 1000000}}]\nserver: {port: 0}\n")
    process = subprocess.Popen([PROGRAM, "serve", "--config", str(config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert " info loading " in process.stderr.readline()
    process.send_signal(signalled)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 0 and stdout == "" and "stopped while loading" in stderr
