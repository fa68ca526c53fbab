"""OpenAI's Python client: chats, structured output, tools, responses over HTTP and WebSocket."""
import asyncio

import openai
import pytest

from examples import ABOUT_A_PERSON, ABOUT_WEATHER, QUESTION, Person, Weather

PLAIN = {"speculation": {"drafter": "none"}}
ENDINGS = ("response.completed", "response.incomplete", "response.failed")


@pytest.fixture
def client(base_url):
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=300) as one:
        yield one


def test_a_chat_whole_streamed_plain_and_speculative(client):
    arguments = dict(model="small", messages=QUESTION, max_tokens=60, temperature=0.7, seed=1)
    whole = client.chat.completions.create(**arguments)
    assert whole.choices[0].message.content and whole.usage.completion_tokens <= 60
    plain = client.chat.completions.create(**arguments, extra_body=PLAIN)
    assert plain.choices[0].message.content == whole.choices[0].message.content
    with client.chat.completions.stream(**arguments, stream_options={"include_usage": True}) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        last = stream.get_final_completion()
    assert text == last.choices[0].message.content == whole.choices[0].message.content
    assert last.usage.completion_tokens == whole.usage.completion_tokens


def test_concurrent_streams_of_the_asynchronous_client(base_url):
    async def one(client, i):
        arguments = dict(model="small", messages=QUESTION, max_tokens=30, temperature=1, seed=i)
        whole = await client.chat.completions.create(**arguments)
        pieces = [c.choices[0].delta.content or "" async for c in await client.chat.completions.create(**arguments, stream=True) if c.choices]
        assert "".join(pieces) == whole.choices[0].message.content
        return whole.choices[0].message.content

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            return await asyncio.gather(*[one(client, i) for i in range(4)])

    assert len(set(asyncio.run(all_of_them()))) > 1


def test_structured_output_is_parsed(client):
    messages = [{"role": "user", "content": ABOUT_A_PERSON}]
    arguments = dict(model="small", messages=messages, response_format=Person, max_tokens=300, temperature=0)
    parsed = client.chat.completions.parse(**arguments)
    assert isinstance(parsed.choices[0].message.parsed, Person)
    plain = client.chat.completions.parse(**arguments, extra_body=PLAIN)
    assert plain.choices[0].message.content == parsed.choices[0].message.content
    with client.chat.completions.stream(**arguments) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.parsed == parsed.choices[0].message.parsed
    response = client.responses.parse(model="small", input=ABOUT_A_PERSON, text_format=Person, max_output_tokens=300, temperature=0)
    assert response.output_parsed == parsed.choices[0].message.parsed


def test_a_tool_is_called_with_parsed_arguments_and_its_result_is_read(client):
    tool = openai.pydantic_function_tool(Weather)
    messages = [{"role": "user", "content": ABOUT_WEATHER}]
    arguments = dict(model="small", tools=[tool], max_tokens=100, temperature=0)
    called = client.chat.completions.parse(**arguments, messages=messages, tool_choice="required").choices[0]
    call = called.message.tool_calls[0]
    assert called.finish_reason == "tool_calls" and isinstance(call.function.parsed_arguments, Weather)
    with client.chat.completions.stream(**arguments, messages=messages, tool_choice={"type": "function", "function": {"name": "Weather"}}) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
    assert [event.parsed_arguments for event in done] == [call.function.parsed_arguments]
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny, 20 degrees"}
    answer = client.chat.completions.create(**arguments, messages=messages + [called.message, result], tool_choice="none").choices[0]
    assert answer.finish_reason in ("stop", "length") and answer.message.content and not answer.message.tool_calls


def test_responses_are_stored_continued_and_deleted(client):
    arguments = dict(model="small", max_output_tokens=40, extra_body={"seed": 1})
    first = client.responses.create(**arguments, input="My name is Ada.")
    events = list(client.responses.create(**arguments, input="What is my name?", previous_response_id=first.id, stream=True))
    second = events[-1].response
    assert events[-1].type in ENDINGS[:2] and second.previous_response_id == first.id
    assert second.output_text == "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert second.usage.input_tokens > first.usage.total_tokens - 2
    assert client.responses.retrieve(second.id).output_text == second.output_text
    assert [item.role for item in client.responses.input_items.list(second.id, order="asc")][0] == "user"
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)


def until_end(connection):
    events = []
    for event in connection:
        events.append(event)
        if event.type in ENDINGS:
            return events


def test_responses_over_one_websocket(client):
    arguments = dict(model="small", max_output_tokens=40, temperature=0)
    with client.responses.connect() as connection:
        connection.response.create(**arguments, input=QUESTION)
        first = until_end(connection)[-1].response
        connection.response.create(**arguments, input="And of Italy?", previous_response_id=first.id)
        events = until_end(connection)
        assert events[-1].response.previous_response_id == first.id
        connection.response.create(**arguments, input="x", previous_response_id="resp_none")
        assert connection.recv().error.code == "previous_response_not_found"
    assert first.output_text == client.responses.create(**arguments, input=QUESTION).output_text


def test_a_function_is_called_over_websocket(client):
    tool = {"type": "function", "name": "Weather", "parameters": Weather.model_json_schema()}
    with client.responses.connect() as connection:
        connection.response.create(model="small", input=ABOUT_WEATHER, tools=[tool], tool_choice="required", max_output_tokens=100, temperature=0)
        events = until_end(connection)
    calls = [item for item in events[-1].response.output if item.type == "function_call"]
    assert calls[0].name == "Weather" and Weather.model_validate_json(calls[0].arguments)
    assert "response.function_call_arguments.done" in [event.type for event in events]
