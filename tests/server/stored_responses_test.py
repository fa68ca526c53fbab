"""Stored responses with the openai client: continuing them over HTTP, reading and deleting them."""
import json

import openai
import pytest


def client_of(daemon, key="none"):
    return openai.OpenAI(base_url=daemon.url + "/v1", api_key=key, max_retries=0)


def ask(client, stream=False, **options):
    """A response, streamed or whole."""
    arguments = dict(model="hash", max_output_tokens=6, extra_body={"seed": 5, "ignore_eos": True}) | options
    if not stream:
        return client.responses.create(**arguments)
    events = list(client.responses.create(**arguments, stream=True))
    assert events[-1].type == "response.incomplete"
    return events[-1].response


@pytest.mark.parametrize("stream", [False, True])
def test_a_chain_says_what_the_whole_conversation_says(daemon, stream):
    with client_of(daemon) as client:
        first = ask(client, stream, input="one")
        second = ask(client, stream, input="two", previous_response_id=first.id)
        third = ask(client, stream, input="three", previous_response_id=second.id, instructions="be brief")
        assert third.previous_response_id == second.id
        turns = []
        for text, reply in (("one", first), ("two", second)):
            turns += [{"role": "user", "content": text}, {"role": "assistant", "content": reply.output_text}]
        alone = ask(client, input=turns + [{"role": "user", "content": "three"}], instructions="be brief")
        assert alone.output_text == third.output_text
        assert alone.usage.input_tokens == third.usage.input_tokens > second.usage.input_tokens


def test_an_item_is_named_instead_of_repeated(daemon):
    with client_of(daemon) as client:
        first = ask(client, input="one")
        question = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
        repeated = ask(client, input=[question[0], {"role": "assistant", "content": first.output_text}, question[1]])
        named = [question[0], {"type": "item_reference", "id": first.output[0].id}, question[1]]
        assert ask(client, input=named).output_text == repeated.output_text
        assert client.responses.input_tokens.count(model="hash", input=named).input_tokens == repeated.usage.input_tokens
        client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError) as refused:
            ask(client, input=named)
        assert refused.value.code == "item_not_found" and refused.value.param == "input[1].id"


def test_a_response_is_read_and_deleted(daemon):
    with client_of(daemon) as client:
        made = ask(client, input="hello", metadata={"a": "b"})
        assert client.responses.retrieve(made.id).model_dump() == made.model_dump()
        status, _, body = daemon.get(f"/v1/responses/{made.id}?stream=true")
        assert status == 400 and json.loads(body)["error"]["code"] == "resume_point_lost"
        client.responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.delete(made.id)
        with pytest.raises(openai.BadRequestError) as refused:
            ask(client, input="more", previous_response_id=made.id)
        assert refused.value.code == "previous_response_not_found" and refused.value.param == "previous_response_id"
        with pytest.raises(openai.NotFoundError):
            client.responses.delete("resp_unknown")


def test_the_prompt_of_a_response_is_listed(daemon):
    with client_of(daemon) as client:
        first = ask(client, input="one")
        second = ask(client, input="two", previous_response_id=first.id)
        items = list(client.responses.input_items.list(second.id, order="asc", limit=2))  # of all pages
        assert [(item.role, item.content[0].text) for item in items] == [("user", "one"), ("assistant", first.output_text), ("user", "two")]
        assert [item.id for item in client.responses.input_items.list(second.id)] == [item.id for item in reversed(items)]


def test_a_client_may_forbid_to_store(daemon):
    with client_of(daemon) as client:
        made = ask(client, input="hello", store=False)
        assert made.store is False
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made.id)
        with pytest.raises(openai.BadRequestError):
            ask(client, input="more", previous_response_id=made.id)


def test_sockets_and_http_continue_each_other(daemon):
    with client_of(daemon) as client:
        over_http = ask(client, input="one")
        with client.responses.connect() as connection:
            connection.response.create(model="hash", input="two", previous_response_id=over_http.id, max_output_tokens=3)
            for event in connection:
                if event.type in ("response.completed", "response.incomplete"):
                    break
        after = ask(client, input="three", previous_response_id=event.response.id)  # its connection is closed
        assert after.usage.input_tokens > event.response.usage.input_tokens


def test_tools_are_part_of_the_conversation(daemon):
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "42"}
    with client_of(daemon) as client:
        first = ask(client, input=[{"role": "user", "content": "one"}, call])
        second = ask(client, input=[result], previous_response_id=first.id)
        turns = [{"role": "user", "content": "one"}, call, {"role": "assistant", "content": first.output_text}, result]
        assert ask(client, input=turns).output_text == second.output_text


def test_a_response_belongs_to_its_key_and_expires(start_daemon, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("one\nother\n")
    daemon = start_daemon(**{"server.api_keys_file": str(keys), "server.response_ttl": "2s"})
    with client_of(daemon, "one") as client, client_of(daemon, "other") as stranger:
        made = ask(client, input="hello")
        assert client.responses.retrieve(made.id).id == made.id
        with pytest.raises(openai.NotFoundError):
            stranger.responses.retrieve(made.id)
        with pytest.raises(openai.NotFoundError):
            stranger.responses.delete(made.id)
        with pytest.raises(openai.BadRequestError):
            ask(stranger, input="more", previous_response_id=made.id)

        daemon.wait_for(lambda: daemon.metric("paceline_kept_bytes") == 0)  # also without a reader
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made.id)


def test_stored_responses_share_one_budget(start_daemon):
    daemon = start_daemon(**{"server.kept_memory": "1MiB"})
    metadata = {str(i): "x" * 512 for i in range(16)}  # repeated by the object, and no part of the prompt
    with client_of(daemon) as client:
        ids = [ask(client, input="x", max_output_tokens=1, metadata=metadata).id for _ in range(150)]
        assert 1 << 19 < daemon.metric("paceline_kept_bytes") <= 1 << 20
        assert client.responses.retrieve(ids[-1]).id == ids[-1]
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(ids[0])
