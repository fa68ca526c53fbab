"""Anthropic's client on /v1/messages."""
import anthropic
import pytest

from examples import ABOUT_A_PERSON, QUESTION, Person


@pytest.fixture
def client(served):
    with anthropic.Anthropic(base_url=served.url, api_key="none", max_retries=0, timeout=300) as one:
        yield one


def test_a_message_whole_and_streamed(client):
    arguments = dict(model="small", messages=QUESTION, max_tokens=40, extra_body={"temperature": 0.5, "seed": 2})
    whole = client.messages.create(**arguments, system="Be brief.")
    with client.messages.stream(**arguments, system="Be brief.") as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert text and text == last.content[0].text == whole.content[0].text
    assert last.usage.output_tokens == whole.usage.output_tokens
    counted = client.messages.count_tokens(model="small", messages=QUESTION, system="Be brief.").input_tokens
    assert counted == whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)


def test_structured_output_is_parsed(client):
    messages = [{"role": "user", "content": ABOUT_A_PERSON}]
    parsed = client.messages.parse(model="small", messages=messages, max_tokens=300, output_format=Person, extra_body={"temperature": 0})
    assert isinstance(parsed.parsed_output, Person)


def test_tools_and_results_are_part_of_a_talk(client):
    tool = {"name": "weather", "description": "The weather of a city.", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
    talk = [
        {"role": "user", "content": "What is the weather in Berlin?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Berlin"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}]},
    ]
    said = client.messages.create(model="small", messages=talk, tools=[tool], tool_choice={"type": "auto"}, max_tokens=40, extra_body={"temperature": 0})
    assert said.stop_reason in ("end_turn", "max_tokens", "tool_use") and said.content
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="none", messages=talk, max_tokens=4)
