"""Requests that clients of other servers send. Each case once failed with an existing client."""
import json
import pathlib

import httpx2
import openai
import pytest
from websockets.sync.client import connect

from daemon import is_closed, read_reply


@pytest.fixture
def client(daemon):
    with openai.OpenAI(base_url=daemon.url + "/v1", api_key="none", max_retries=0) as one:
        yield one


FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"
MESSAGES = [{"role": "user", "content": "hello"}]
# The defaults of llama-server's sampling, as front ends written for it send them with every request.
LLAMA_SERVER = {
    "n_predict": 8,
    "repeat_penalty": 1.0,
    "repeat_last_n": 64,
    "top_k": 40,
    "min_p": 0.05,
    "typical_p": 1.0,
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "dynatemp_range": 0.0,
    "top_n_sigma": -1.0,
    "logit_bias": [],
    "stop": "",
    "seed": -1,
    "grammar": "",
    "cache_prompt": True,
    "n_probs": 0,
}


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_llama_servers_defaults_pass(daemon, path):
    status, headers, reply = daemon.post(path, LLAMA_SERVER | ({"prompt": "x"} if path == "/v1/completions" else {"messages": MESSAGES}))
    assert status == 200, reply
    assert reply["usage"]["completion_tokens"] <= 8, "n_predict"
    assert headers["x-paceline-ignored-fields"] is None


def test_its_penalty_is_the_same_under_both_names(daemon):
    def text(**fields):
        body = {"prompt": "abcabcabc", "max_tokens": 60, "seed": 3, "temperature": 0.5, "ignore_eos": True}
        return daemon.post("/v1/completions", body | fields)[2]["choices"][0]["text"]

    assert text(repeat_penalty=1.8) == text(repetition_penalty=1.8) != text()


def test_a_top_p_of_0_is_greedy(daemon):
    def text(**fields):
        return daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 20, "ignore_eos": True} | fields)[2]["choices"][0]["text"]

    assert text(top_p=0, seed=1) == text(top_p=0, seed=2) == text(temperature=0) != text(seed=1)


def test_no_limit_of_tokens_is_the_rest_of_the_context(daemon):
    for field in ("max_tokens", "n_predict"):
        reply = daemon.post("/v1/completions", {"prompt": "x" * 4000, field: -1, "ignore_eos": True})[2]
        assert reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"] == 4096


def test_options_for_reasoning_pass_where_there_is_none(client):
    reply = client.chat.completions.create(model="hash", messages=MESSAGES, max_tokens=4, reasoning_effort="low", verbosity="medium")
    assert reply.choices[0].finish_reason in ("stop", "length")
    assert client.responses.create(model="hash", input="hello", max_output_tokens=16, reasoning={"effort": "low"}).status


def test_a_frame_of_openai_agents_says_that_it_is_streamed(daemon):
    """Its Responses model sends the fields of an HTTP request in the frame, with those that it leaves unset as null."""
    frame = {
        "type": "response.create",
        "model": "hash",
        "input": [{"role": "user", "content": "hello"}],
        "instructions": "be brief",
        "include": [],
        "tools": [],
        "parallel_tool_calls": None,
        "temperature": None,
        "max_output_tokens": 16,
        "store": None,
        "reasoning": None,
        "metadata": None,
        "stream": True,
    }
    with connect(daemon.url.replace("http", "ws") + "/v1/responses", compression=None) as ws:
        ws.send(json.dumps(frame))
        events = [json.loads(ws.recv(timeout=60))]
        while events[-1]["type"] not in ("response.completed", "response.incomplete", "error"):
            events.append(json.loads(ws.recv(timeout=60)))
        assert events[0]["type"] == "response.created" and events[-1]["type"] != "error", events[-1]
        ws.send(json.dumps(frame | {"stream": False}))
        assert json.loads(ws.recv(timeout=60))["error"]["param"] == "stream"


def test_a_browsers_preflight_for_openais_client_passes(daemon):
    """Its fetch is refused by the browser if one of the headers is missing in the reply."""
    wanted = (
        "authorization,content-type,openai-organization,openai-project,user-agent,x-stainless-arch,x-stainless-lang,x-stainless-os,"
        "x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout"
    )
    headers = {"Origin": "http://localhost:5173", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": wanted}
    reply = httpx2.request("OPTIONS", daemon.url + "/v1/chat/completions", headers=headers)
    assert reply.status_code == 204 and reply.headers["access-control-allow-origin"] == "http://localhost:5173"
    allowed = {name.strip() for name in reply.headers["access-control-allow-headers"].split(",")}
    assert allowed >= set(wanted.split(","))


@pytest.mark.parametrize("line", ["OPTIONS / HTTP/1.0", "GET /livez HTTP/1.0", "HEAD /readyz HTTP/1.0", "GET / HTTP/1.0"])
def test_checks_of_load_balancers_have_no_host(daemon, line):
    """HAProxy's `option httpchk` sends the first one as it stands."""
    with daemon.connect() as connection:
        connection.sendall(line.encode() + b"\r\n\r\n")
        status, headers, _ = read_reply(connection) if not line.startswith("HEAD") else read_head(connection)
        assert status in (200, 204) and headers["connection"] == "close"
        assert is_closed(connection)


def read_head(connection):
    """A reply to HEAD, whose Content-Length no body follows."""
    lines = connection.recv(65536).decode().split("\r\n")
    return int(lines[0].split()[1]), {key.lower(): value for key, value in (line.split(": ", 1) for line in lines[1:] if line)}, b""


def test_all_else_needs_a_host(daemon):
    with daemon.connect() as connection:
        connection.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
        assert read_reply(connection)[0] == 400


def test_a_base_url_without_v1_gets_a_hint(daemon):
    with openai.OpenAI(base_url=daemon.url, api_key="none", max_retries=0) as wrong, pytest.raises(openai.NotFoundError) as failure:
        wrong.chat.completions.create(model="hash", messages=MESSAGES)
    assert "/v1/chat/completions" in failure.value.message


def test_embeddings_are_refused_by_name(client):
    with pytest.raises(openai.NotFoundError, match="embeddings are not offered"):
        client.embeddings.create(model="hash", input="x")


def test_a_refused_host_is_told_which_option_lists_hosts(daemon):
    with daemon.connect() as connection:
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: box.lan:8000\r\n\r\n")
        status, _, body = read_reply(connection)
        message = json.loads(body)["error"]["message"]
        assert status == 403 and "box.lan:8000" in message and "server.allowed_hosts" in message


@pytest.mark.parametrize("path, body", [("/v1/chat/completions", {"messages": MESSAGES}), ("/v1/completions", {"prompt": "x"}), ("/v1/responses", {"input": "x"})])
def test_streams_tell_proxies_not_to_buffer(daemon, path, body):
    with httpx2.stream("POST", daemon.url + path, json=body | {"stream": True, "seed": 1}) as reply:
        assert reply.headers["x-accel-buffering"] == "no" and reply.headers["cache-control"] == "no-store"
        reply.read()


def test_the_scores_of_a_chat_are_those_of_its_text(client):
    """Token 257 ends a turn of this model. Clients join the tokens and compare them with the text."""
    bias = {str(i): -100 for i in range(128, 300)} | {"257": 100}  # ASCII, so that every token is text
    fields = dict(model="hash", messages=MESSAGES, max_tokens=20, seed=1, logprobs=True, extra_body={"min_tokens": 3, "logit_bias": bias})
    choice = client.chat.completions.create(**fields).choices[0]
    assert choice.finish_reason == "stop"
    assert len(choice.logprobs.content) == 3
    assert "".join(entry.token for entry in choice.logprobs.content) == choice.message.content
    streamed = [chunk.choices[0].logprobs for chunk in client.chat.completions.create(**fields, stream=True) if chunk.choices]
    assert [entry.token for part in streamed if part for entry in part.content] == [entry.token for entry in choice.logprobs.content]


def test_ids_of_calls_pass_a_template_that_counts_their_letters(start_daemon):
    """Mistral's templates refuse ids that are not nine letters or digits, and so the ids that this server gives."""
    daemon = start_daemon(**{"models.0.chat_template": FIXTURES / "templates/mistralai-Mistral-Nemo-Instruct-2407.jinja"})
    for call_id in ("call_" + "0a" * 16, "abc123DEF"):
        call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        talk = [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": call_id, "content": "1"}]
        fields = {"max_tokens": 4, "tools": [{"type": "function", "function": {"name": "f"}}]}
        status, _, reply = daemon.post("/v1/chat/completions", {"messages": talk} | fields)
        assert status == 200, reply


def test_options_for_reasoning_are_what_the_template_makes_of_them(start_daemon, tmp_path):
    template = tmp_path / "thinking.jinja"
    template.write_text("{{ messages[-1].content }}{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}")
    daemon = start_daemon(**{"models.0.chat_template": template})

    def num_prompt_tokens(**fields):
        status, _, reply = daemon.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 4} | fields)
        return reply["usage"]["prompt_tokens"] if status == 200 else reply["error"]["param"]

    on = num_prompt_tokens()
    off = num_prompt_tokens(chat_template_kwargs={"enable_thinking": False})
    assert off > on
    assert num_prompt_tokens(enable_thinking=False) == num_prompt_tokens(reasoning_effort="none") == off
    assert num_prompt_tokens(reasoning_effort="high") == on
    assert num_prompt_tokens(reasoning_effort="no") == "reasoning_effort"
    template.write_text("{{ messages[-1].content }}<think>")
    daemon = start_daemon(**{"models.0.chat_template": template})
    assert isinstance(num_prompt_tokens(reasoning_effort="medium"), int)
    assert num_prompt_tokens(reasoning_effort="none") == "reasoning_effort", "it always reasons"
