"""/openapi.json: it is valid, replies have the shape it says, and requests made from it break nothing."""
import functools
import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import jsonschema
import pytest
from openapi_spec_validator import validate

from daemon import Daemon

# More by hand: PACELINE_OPENAPI_CASES=1000 PACELINE_OPENAPI_PHASES=examples,coverage,fuzzing, and -s for the summary.
CASES_PER_OPERATION = int(os.environ.get("PACELINE_OPENAPI_CASES", "10"))
PHASES = os.environ.get("PACELINE_OPENAPI_PHASES", "examples,fuzzing")
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12}
COMPLETION = {"prompt": "Hello", "max_tokens": 12}
MESSAGE = CHAT
RESPONSE = {"input": "Hello", "max_output_tokens": 12}
EXTENSIONS = {"paceline": {"token_ids": True, "trace": True}}
LOOKUP = {"speculation": {"drafter": "lookup"}}
PREDICTION = {"prediction": {"type": "content", "content": "Hello again"}}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}


class Document(dict):
    @functools.cached_property
    def closed_schemas(self):
        """Those of requests as they are, the others without members that are not declared."""
        return {name: schema if name.endswith("_request") else closed(schema) for name, schema in self["components"]["schemas"].items()}


@pytest.fixture(scope="module")
def document(daemon):
    status, headers, text = daemon.get("/openapi.json")
    assert status == 200 and headers["Content-Type"] == "application/json"
    return Document(json.loads(text))


def closed(schema):
    """The same, in which objects have no members that are not declared."""
    if isinstance(schema, list):
        return [closed(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    return made


def check(document, name, value):
    """Fails unless `value` is a `name`, without members that the document does not declare."""
    whole = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": document.closed_schemas}}
    jsonschema.Draft202012Validator(whole).validate(value)


def events_of(daemon, path, body):
    """The JSON of each event of a stream."""
    request = urllib.request.Request(daemon.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        lines = [line.decode().strip() for line in reply]
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(text) for text in data if text != "[DONE]"]


def test_the_document_is_valid_openapi(document):
    assert document["openapi"].startswith("3.1")
    validate(document)
    for path in document["paths"].values():
        for operation in path.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                check(document, content["schema"]["$ref"].split("/")[-1], content["example"])


def test_it_needs_no_key_and_has_no_body_for_head(tmp_path, start_daemon):
    keys = tmp_path / "keys"
    keys.write_text("sesame-sesame-sesame\n")
    keys.chmod(0o600)
    running = start_daemon(**{"server.api_keys_file": keys})
    assert running.get("/v1/models")[0] == 401
    status, _, text = running.get("/openapi.json")
    assert status == 200
    with running.connect() as connection:
        connection.sendall(b"HEAD /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        reply = b""
        while piece := connection.recv(65536):
            reply += piece
    assert reply.endswith(b"\r\n\r\n") and f"Content-Length: {len(text.encode())}\r\n".encode() in reply


@pytest.mark.parametrize(
    "path, body, schema",
    [
        ("/v1/completions", COMPLETION, "completion"),
        ("/v1/completions", COMPLETION | EXTENSIONS | LOOKUP | PREDICTION | {"n": 2, "logprobs": 2, "echo": True}, "completion"),
        ("/v1/completions", COMPLETION | {"speculation": {"drafter": "prediction", "rule": "typical"}} | PREDICTION, "completion"),
        ("/v1/chat/completions", CHAT | LOOKUP, "chat_completion"),
        ("/v1/chat/completions", CHAT | EXTENSIONS | LOOKUP | {"logprobs": True, "top_logprobs": 2}, "chat_completion"),
        ("/v1/responses", RESPONSE, "response"),
        (
            "/v1/responses",
            RESPONSE | EXTENSIONS | LOOKUP | {"instructions": "x", "metadata": {"a": "b"}, "include": ["message.output_text.logprobs"], "top_logprobs": 1},
            "response",
        ),
        ("/v1/messages", MESSAGE | LOOKUP | {"stop_sequences": ["e", "a"]}, "message"),
        ("/v1/messages/count_tokens", {"messages": MESSAGE["messages"]}, "message_count"),
        ("/tokenize", {"prompt": "Hello", "return_token_strs": True}, "token_list"),
        ("/models/hash/tokenize", {"messages": CHAT["messages"]}, "token_list"),
        ("/detokenize", {"tokens": [72, 105]}, "token_text"),
    ],
)
def test_replies_have_the_declared_members(daemon, document, path, body, schema):
    status, _, reply = daemon.post(path, body)
    assert status == 200, reply
    check(document, schema, reply)


@pytest.mark.parametrize(
    "path, body, schema",
    [
        ("/v1/completions", COMPLETION | USAGE | LOOKUP | EXTENSIONS | {"logprobs": 2, "echo": True}, "completion_chunk"),
        ("/v1/chat/completions", CHAT | USAGE | LOOKUP | EXTENSIONS | {"logprobs": True, "top_logprobs": 2}, "chat_chunk"),
        ("/v1/responses", RESPONSE | LOOKUP | {"stream": True, "paceline": {"token_ids": True, "trace": True, "resumable": True}}, "response_event"),
        ("/v1/messages", MESSAGE | LOOKUP | {"stream": True}, "message_event"),
    ],
)
def test_events_have_the_declared_members(daemon, document, path, body, schema):
    events = events_of(daemon, path, body)
    assert len(events) > 3
    for event in events:
        check(document, schema, event)


def test_thoughts_have_the_declared_members(tmp_path, start_daemon, document):
    """The template opens a thought that the model, which draws bytes, does not end."""
    template = tmp_path / "thinking.jinja"
    template.write_text("{% for message in messages %}{{ message.content }}{% endfor %}{% if false %}</think>{% endif %}<think>")
    running = start_daemon(**{"models.0.chat_template": template})
    reply = running.post("/v1/chat/completions", CHAT)[2]
    assert reply["choices"][0]["message"]["reasoning_content"]
    check(document, "chat_completion", reply)
    reply = running.post("/v1/responses", RESPONSE)[2]
    assert reply["output"][0]["type"] == "reasoning"
    check(document, "response", reply)
    reply = running.post("/v1/messages", MESSAGE)[2]
    assert reply["content"][0]["type"] == "thinking"
    check(document, "message", reply)
    streams = [
        ("/v1/chat/completions", CHAT, "chat_chunk", "reasoning"),
        ("/v1/responses", RESPONSE, "response_event", "reasoning"),
        ("/v1/messages", MESSAGE, "message_event", "thinking_delta"),
    ]
    for path, body, schema, mark in streams:
        events = events_of(running, path, body | {"stream": True})
        assert mark in json.dumps(events)
        for event in events:
            check(document, schema, event)


def test_other_replies_have_the_declared_members(daemon, document):
    for path, schema in [("/v1/models", "model_list"), ("/v1/models/hash", "model"), ("/tokenizer_info", "tokenizer_info"), ("/livez", "health")]:
        check(document, schema, json.loads(daemon.get(path)[2]))
    for path in ("/v1/models/none", "/nothing"):
        status, _, text = daemon.get(path)
        assert status == 404
        check(document, "error", json.loads(text))


CITY = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}
FLAT_TOOL = {"type": "function", "name": "get_weather", "parameters": CITY}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
CALL_OF_CHAT = CHAT | {"tools": [TOOL], "tool_choice": "required", "max_tokens": 200}
CALL_OF_RESPONSE = RESPONSE | {"tools": [FLAT_TOOL], "tool_choice": "required", "max_output_tokens": 200}
CALL_OF_MESSAGE = MESSAGE | {"tools": [{"name": "get_weather", "input_schema": CITY}], "tool_choice": {"type": "any"}, "max_tokens": 200}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": CITY}}


@pytest.fixture(scope="module")
def with_grammars(document, tmp_path_factory):
    running = Daemon(tmp_path_factory.mktemp("grammars"), **{"models.0.tool_call_parser": "hermes"})
    try:
        status, _, reply = running.post("/v1/chat/completions", CHAT | {"response_format": FORMAT, "max_tokens": 1})
        if status != 200:
            assert "no grammar library" in reply["error"]["message"]
            pytest.skip("this build has no grammar library")
        yield running
    finally:
        running.stop()


@pytest.mark.parametrize(
    "path, body, schema, event_schema, made",
    [
        ("/v1/chat/completions", CALL_OF_CHAT, "chat_completion", "chat_chunk", '"tool_calls"'),
        ("/v1/responses", CALL_OF_RESPONSE, "response", "response_event", '"function_call"'),
        ("/v1/messages", CALL_OF_MESSAGE, "message", "message_event", '"tool_use"'),
        ("/v1/chat/completions", CHAT | {"response_format": FORMAT, "max_tokens": 200}, "chat_completion", "chat_chunk", "city"),
        ("/v1/completions", COMPLETION | {"guided_json": CITY, "max_tokens": 200}, "completion", "completion_chunk", "city"),
        ("/v1/responses", RESPONSE | {"text": {"format": {"type": "json_schema", "name": "place", "schema": CITY}}, "max_output_tokens": 200}, "response", "response_event", "city"),
    ],
)
def test_calls_and_constrained_replies_have_the_declared_members(with_grammars, document, path, body, schema, event_schema, made):
    status, _, reply = with_grammars.post(path, body)
    assert status == 200 and made in json.dumps(reply), reply
    check(document, schema, reply)
    events = events_of(with_grammars, path, body | {"stream": True})
    assert len(events) > 3 and (made == "city" or made.strip('"') in json.dumps(events))  # texts come in pieces
    for event in events:
        check(document, event_schema, event)


def test_the_servers_own_events_have_the_declared_members(daemon, document):
    status, headers, text = daemon.get("/paceline/events?limit=1")
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream")
    check(document, "snapshot", json.loads(text.removeprefix("data: ")))


def test_stored_responses_have_the_declared_members(daemon, document):
    talk = [
        {"role": "user", "content": "Hello"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "42"},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "Go on"},
    ]
    path = "/v1/responses/" + daemon.post("/v1/responses", RESPONSE | {"input": talk})[2]["id"]
    check(document, "response", json.loads(daemon.get(path)[2]))
    items = json.loads(daemon.get(path + "/input_items?limit=100&order=asc")[2])
    assert [item["type"] for item in items["data"]] == ["message", "function_call", "function_call_output", "message", "message"]
    check(document, "input_item_list", items)
    check(document, "input_item_list", json.loads(daemon.get(path + "/input_items?limit=1")[2]))
    with urllib.request.urlopen(urllib.request.Request(daemon.url + path, method="DELETE"), timeout=30) as reply:
        check(document, "deleted_response", json.load(reply))


def test_refusals_of_messages_have_the_declared_members(daemon, document, start_daemon, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("sesame-sesame-sesame\n")
    keys.chmod(0o600)
    locked = start_daemon(**{"server.api_keys_file": keys})
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        asked = [
            (daemon.post(path, {"max_tokens": 1}), 400),
            (daemon.post(path, MESSAGE | {"model": "none"}), 404),
            (daemon.post(path, b"{}", {"Content-Type": "text/plain"}), 415),
            (locked.post(path, MESSAGE), 401),
        ]
        for (status, _, reply), expected in asked:
            assert status == expected
            check(document, "message_error", reply)
        assert document["paths"][path]["post"]["responses"]["400"]["content"]["application/json"]["schema"]["$ref"].endswith("/message_error")
        assert locked.post(path, MESSAGE, {"x-api-key": "sesame-sesame-sesame"})[0] == 200
    scheme = document["components"]["securitySchemes"]["x_api_key"]
    assert scheme["in"] == "header" and scheme["name"] == "x-api-key" and {"x_api_key": []} in document["security"]


def test_requests_made_from_the_document_break_nothing(start_daemon, document, tmp_path):
    """No 5xx, no undeclared status, no reply of another shape, nothing accepted that the document forbids."""
    running = start_daemon(**{"models.0.context_length": 64})  # `n` times `max_tokens` would take longer
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    command = [pathlib.Path(sys.executable).parent / "st", "run", "openapi.json", "--url", running.url, "--seed", "20261125"]
    # Rules between fields, and limits of the model, are not in the document: what it allows may be refused.
    command += ["--exclude-path", "/paceline/events"]  # has no end
    command += ["--max-examples", str(CASES_PER_OPERATION), "--phases", PHASES, "--exclude-checks", "positive_data_acceptance"]
    command += ["--no-shrink", "--no-color", "--generation-database", "none", "--warnings", "off", "--suppress-health-check", "all"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    operations = sum(len(path) for path in document["paths"].values()) - 1
    assert f"Tested: {operations}\n" in done.stdout
    running.wait_until_idle()
