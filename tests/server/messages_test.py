"""/v1/messages with Anthropic's client: whole, streamed, counted and refused."""

import anthropic
import pytest

TALK = [{"role": "user", "content": "hello"}]


def client_of(daemon, key="none"):
    return anthropic.Anthropic(base_url=daemon.url, api_key=key, max_retries=0)


@pytest.fixture
def client(daemon):
    with client_of(daemon) as one:
        yield one


def ask(client, extra={}, **options):
    arguments = dict(model="hash", messages=TALK, max_tokens=12, extra_body={"seed": 3, "ignore_eos": True} | extra)
    return client.messages.create(**arguments | options)


def text_of(message):
    return "".join(block.text for block in message.content)


def test_a_message_whole_and_streamed(client):
    whole = ask(client, system="be brief")
    assert whole.type == "message" and whole.role == "assistant" and whole.model == "hash" and whole.id.startswith("msg_")
    assert whole.stop_reason == "max_tokens" and whole.stop_sequence is None
    assert whole.usage.output_tokens == 12 and whole.usage.input_tokens + whole.usage.cache_read_input_tokens > 10
    assert whole.model_extra == {}

    body = {"seed": 3, "ignore_eos": True}
    with client.messages.stream(model="hash", messages=TALK, max_tokens=12, system="be brief", extra_body=body) as stream:
        said = "".join(stream.text_stream)
        streamed = stream.get_final_message()
    assert said == text_of(streamed) == text_of(whole)
    assert streamed.stop_reason == "max_tokens" and streamed.usage.output_tokens == 12
    total = whole.usage.input_tokens + whole.usage.cache_read_input_tokens
    assert streamed.usage.input_tokens + streamed.usage.cache_read_input_tokens == total

    events = [event.type for event in ask(client, stream=True)]
    assert events[:2] == ["message_start", "content_block_start"]
    assert events[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(events[2:-3]) == {"content_block_delta"}


def test_it_says_what_a_chat_says(daemon, client):
    message = ask(client, system="be brief", extra={"temperature": 0.5, "top_k": 40, "top_p": 0.9})
    talk = [{"role": "system", "content": "be brief"}] + TALK
    fields = {"temperature": 0.5, "top_k": 40, "top_p": 0.9, "seed": 3, "ignore_eos": True, "max_tokens": 12}
    chat = daemon.post("/v1/chat/completions", {"model": "hash", "messages": talk} | fields)[2]
    assert chat["choices"][0]["message"]["content"] == text_of(message)
    assert chat["usage"]["prompt_tokens"] == message.usage.input_tokens + message.usage.cache_read_input_tokens


def test_speculation_changes_no_token(client):
    plain = text_of(ask(client, max_tokens=60, extra={"speculation": {"drafter": "none"}}))
    assert text_of(ask(client, max_tokens=60, extra={"speculation": {"drafter": "lookup"}})) == plain


def test_tells_which_sequence_stopped_it(client):
    whole = text_of(ask(client, max_tokens=40))
    inside = whole[10:13]
    first = whole.index(inside)
    stopped = ask(client, max_tokens=40, stop_sequences=["never said", inside])
    assert (stopped.stop_reason, stopped.stop_sequence, text_of(stopped)) == ("stop_sequence", inside, whole[:first])


def test_what_claude_code_sends_in_every_request_is_accepted(client):
    """It knows neither the model's context nor that nothing is compacted here."""
    wish = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    arguments = dict(model="hash", messages=TALK, max_tokens=64000, stop_sequences=["a", "e", "t"], timeout=60)
    answered = client.messages.with_raw_response.create(**arguments, extra_body={"context_management": wish})
    assert answered.headers["x-paceline-ignored-fields"] == "context_management"
    assert answered.parse().stop_reason in ("stop_sequence", "end_turn")
    assert client.messages.count_tokens(model="hash", messages=TALK, extra_body={"context_management": wish}).input_tokens > 1


def test_tools_and_their_results_are_part_of_the_conversation(daemon, client):
    talk = TALK + [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "42"}]}, {"type": "text", "text": "so?"}]},
    ]
    count = client.messages.count_tokens(model="hash", messages=talk).input_tokens
    chat = TALK + [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]},
        {"role": "tool", "tool_call_id": "t1", "content": "42"},
        {"role": "user", "content": "so?"},
    ]
    assert daemon.post("/tokenize", {"model": "hash", "messages": chat})[2]["count"] == count
    usage = ask(client, messages=talk).usage
    assert usage.input_tokens + usage.cache_read_input_tokens == count


def test_a_repeated_prompt_is_found_in_the_cache(client):
    talk = [{"role": "user", "content": "a long prompt " * 40}]
    ask(client, messages=talk)
    usage = ask(client, messages=talk).usage
    assert usage.cache_read_input_tokens > 400 and usage.input_tokens < 100


@pytest.mark.parametrize(
    "options, status, kind, words",
    [
        ({"max_tokens": 0}, 400, "invalid_request_error", "max_tokens"),
        ({"extra_body": {"temperature": 1.5}}, 400, "invalid_request_error", "temperature"),
        ({"model": "claude-none"}, 404, "not_found_error", "claude-none"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, 400, "invalid_request_error", 'blocks of type "image"'),
        ({"messages": TALK + [{"role": "assistant", "content": "I"}]}, 400, "invalid_request_error", "not continued"),
        ({"tools": [{"name": "f", "input_schema": {"type": "object"}}]}, 400, "invalid_request_error", "tool_call_parser"),
        ({"tool_choice": {"type": "any"}}, 400, "invalid_request_error", "tool_choice: needs tools"),
        ({"messages": [{"role": "user", "content": "x" * 5000}]}, 400, "invalid_request_error", "context"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_arrive_as_the_clients_own(client, options, status, kind, words, stream):
    with pytest.raises(anthropic.APIStatusError) as refused:
        ask(client, stream=stream, **options)
    assert refused.value.status_code == status
    assert refused.value.body["type"] == "error" and refused.value.body["error"]["type"] == kind
    assert words in refused.value.body["error"]["message"]


def test_keys_are_taken_from_either_header(start_daemon, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("one\n")
    daemon = start_daemon(**{"server.api_keys_file": str(keys)})
    with client_of(daemon, "one") as client:
        assert ask(client).usage.output_tokens == 12
    with anthropic.Anthropic(base_url=daemon.url, auth_token="one", max_retries=0) as client:
        assert ask(client).usage.output_tokens == 12
    with client_of(daemon, "two") as client, pytest.raises(anthropic.AuthenticationError) as refused:
        ask(client)
    assert refused.value.body["error"]["type"] == "authentication_error"


def test_a_client_that_leaves_frees_its_generation(slow_daemon):
    with client_of(slow_daemon) as client:
        stream = ask(client, stream=True, max_tokens=3000)
        next(iter(stream))
        stream.close()
    slow_daemon.wait_until_idle()


def test_a_stream_that_is_cut_short_ends_with_an_error(start_daemon):
    daemon = start_daemon(**{"models.0.hash.pass_work": 2000000, "shutdown.drain_timeout": "100ms"})
    with client_of(daemon) as client:
        with pytest.raises(anthropic.APIStatusError) as ended:
            for i, _ in enumerate(ask(client, stream=True, max_tokens=3000)):
                if i == 3:
                    daemon.terminate()
    assert ended.value.body["error"]["type"] == "overloaded_error"
    assert daemon.stop() == 0
