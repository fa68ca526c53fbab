"""The flags of `paceline serve` that stand for options of its first model, and the keys on the command line."""
import json
import os
import pathlib
import re
import subprocess
import urllib.error
import urllib.request

import pytest

PACELINE = os.environ["PACELINE_BIN"]
TINY_MODEL = pathlib.Path(os.environ["PACELINE_BINARY_DIR"]) / "bin" / "tiny_model_tool"


def serve(*arguments):
    return subprocess.run([PACELINE, "serve", *arguments], capture_output=True, text=True, timeout=60)


def settings(*arguments):
    """The lines of the effective configuration, stripped."""
    done = serve("--print-config", *arguments)
    assert done.returncode == 0, done.stderr
    return [line.strip() for line in done.stdout.splitlines()]


def drafters(*arguments):
    """Names of the first model's drafters, as configured, and the default one."""
    lines = settings(*arguments)
    text = "\n".join(lines)
    listed = re.findall(r"^(?:- )?name: (\S+)", text[text.index("drafters:"):], re.M)
    return listed, re.search(r"^default_drafter: (\S+)", text, re.M)[1]


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "daemon.yaml"
    path.write_text(
        "version: 1\nmodels:\n  - name: configured\n    kind: hash\n    aliases: [old]\n"
        "    drafters: [{name: lookup, kind: ngram, draft_length: 3}]\nserver: {port: 0}\n"
    )
    return path


def test_a_model_may_be_of_another_kind_than_the_configured_one(config, tmp_path):
    lines = settings("--config", config, "-m", "big.gguf")
    assert any(line.startswith("kind: file ") for line in lines) and any(line.startswith("path: big.gguf ") for line in lines)
    of_a_file = tmp_path / "file.yaml"
    of_a_file.write_text("version: 1\nmodels: [{name: configured, path: small.gguf}]\n")
    lines = settings("--config", of_a_file, "-m", "hash")
    assert any(line.startswith("kind: hash ") for line in lines) and not any("small.gguf" in line for line in lines)


@pytest.mark.parametrize("flag", ["--ctx-size", "-c"])
def test_the_context_is_that_of_a_request(flag):
    assert any(line.startswith("context_length: 1234 ") for line in settings("--model", "hash", flag, "1234"))


@pytest.mark.parametrize(
    "flag, value, line",
    [
        ("--device", "cpu", "device: cpu "),
        ("--kv-dtype", "q8", "dtype: q8 "),
        ("--chat-template", "chatml", "chat_template: chatml "),
        ("--log-level", "warning", "level: warning "),
    ],
)
def test_flags_stand_for_options(flag, value, line):
    assert any(each.startswith(line) and "command line" in each for each in settings("--model", "hash", flag, value))


@pytest.mark.parametrize(
    "flag, path", [("--device", "models.0.device"), ("--kv-dtype", "models.0.kv.dtype"), ("--log-level", "logging.level")]
)
def test_values_that_cannot_be_are_refused_by_name(flag, path):
    done = serve("--model", "hash", flag, "xyzzy")
    assert done.returncode == 78 and f"command line: {path}: " in done.stderr


def test_a_context_that_is_none_is_refused_by_name():
    done = serve("--model", "hash", "--ctx-size", "many")
    assert done.returncode == 78 and "context_length" in done.stderr and "command line" in done.stderr


@pytest.mark.parametrize("flag", ["--alias", "-a"])
def test_the_first_alias_is_the_name(config, flag):
    lines = settings("--config", config, flag, "gpt-4o,small")
    assert any(line.removeprefix("- ").startswith("name: gpt-4o ") for line in lines)
    assert any(line.startswith('aliases: ["small"]') or line.startswith("aliases: [small]") for line in lines), lines


def test_an_empty_alias_is_refused_by_name():
    done = serve("--model", "hash", "--alias", "a,,b")
    assert done.returncode == 2 and "--alias" in done.stderr


def test_flags_add_drafters_to_the_usual_ones():
    assert drafters("--model", "hash", "--draft-model", "small.gguf") == (["ngram", "suffix", "model"], "auto")
    assert drafters("--model", "hash", "--drafter", "lookahead") == (["ngram", "suffix", "lookahead"], "lookahead")
    assert drafters("--model", "hash", "--drafter", "ngram")[1] == "ngram"
    assert drafters("--model", "hash", "--drafter", "none")[1] == "none"
    assert drafters("--model", "hash", "--draft-model", "small.gguf", "--drafter", "model") == (["ngram", "suffix", "model"], "model")


def test_flags_add_drafters_to_the_configured_ones(config):
    assert drafters("--config", config, "--draft-model", "small.gguf") == (["lookup", "model"], "auto")
    assert drafters("--config", config, "--drafter", "lookup") == (["lookup"], "lookup")
    assert drafters("--config", config, "--drafter", "suffix") == (["lookup", "suffix"], "suffix")
    assert "draft_length: 3" in " ".join(settings("--config", config, "--drafter", "suffix")), "the file's drafter stays"


@pytest.mark.parametrize(
    "name, code, words",
    [
        ("xyzzy", 78, "command line: models.0.drafters.2.kind: 'xyzzy' is not one of none, ngram"),
        ("eagle3", 2, "--drafter eagle3 needs --draft-head"),
        ("model", 2, "--drafter model needs --draft-model"),
        ("cascade", 2, "--drafter cascade needs a configuration file"),
    ],
)
def test_a_drafter_that_cannot_be_is_named(name, code, words):
    done = serve("--model", "hash", "--drafter", name)
    assert done.returncode == code and words in done.stderr


def test_a_missing_draft_head_is_named():
    done = serve("--model", "hash", "--draft-head", "/nowhere/head")
    assert done.returncode == 2 and "--draft-head" in done.stderr and "/nowhere/head" in done.stderr


@pytest.mark.parametrize("key", ["two words", "", "a,,b", "#x", "k" * 513, "schlüssel"])
def test_a_key_that_cannot_be_is_refused_by_name(key):
    done = serve("--model", "hash", "--api-key", key)
    assert done.returncode == 2 and "--api-key" in done.stderr
    assert len(key) < 5 or key not in done.stderr, "a key is a secret"


def test_the_configuration_does_not_show_keys():
    assert "sesame" not in "\n".join(settings("--model", "hash", "--api-key", "sesame"))


def status_of(url, key=None):
    request = urllib.request.Request(url + "/v1/models", headers={} if key is None else {"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as refused:
        return refused.code, None


def test_a_daemon_of_flags_alone(tmp_path):
    """Open to other machines, which the keys allow; a drafting model; names; and all of it after a reload, too."""
    model, small = tmp_path / "big.gguf", tmp_path / "small.gguf"
    for path in (model, small):
        subprocess.run([TINY_MODEL, "write", path], check=True, capture_output=True)
    daemon = subprocess.Popen(
        [PACELINE, "serve", "-m", model, "--draft-model", small, "--drafter", "model", "-c", "48", "-a", "tiny,mini",
         "--api-key", "alpha,beta", "--api-key", "gamma", "--host", "0.0.0.0", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    try:
        line = daemon.stdout.readline()
        assert line.startswith("listening on http://0.0.0.0:"), daemon.stderr.read()
        url = line.split()[-1].replace("0.0.0.0", "127.0.0.1")
        for _ in range(2):
            assert status_of(url)[0] == status_of(url, "delta")[0] == 401
            for key in ("alpha", "beta", "gamma"):
                status, models = status_of(url, key)
                assert status == 200
            served = models["data"][0]
            assert served["id"] == "tiny" and served["aliases"] == ["mini"] and served["max_model_len"] == 48
            assert served["meta"]["drafters"] == ["none", "ngram", "suffix", "model", "prediction", "forced", "auto"]
            daemon.send_signal(1)  # SIGHUP; the second round asks the daemon that has read its configuration again
            while "configuration read again" not in (told := daemon.stderr.readline()):
                assert told and "refused" not in told, told
    finally:
        daemon.terminate()
        assert daemon.wait(timeout=30) == 0
        daemon.communicate()


def test_the_weightless_example_chats():
    """A first try without a model. The page, chats and responses need a chat template."""
    example = pathlib.Path(os.environ["PACELINE_SOURCE_DIR"]) / "config" / "examples" / "development.yaml"
    daemon = subprocess.Popen([PACELINE, "serve", "--config", example], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = daemon.stdout.readline().split()[-1]
        for path, body in [
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}),
            ("/v1/responses", {"input": "Hello", "max_output_tokens": 4}),
        ]:
            request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as reply:
                assert reply.status == 200
    finally:
        daemon.terminate()
        assert daemon.wait(timeout=30) == 0
        daemon.stdout.close()
