"""Calls of tools and thoughts with a real model and outside clients, whole and streamed, plain and speculative."""
import json
import pathlib

import anthropic
import openai
import pytest

from chat_replies import joined, whole
from real_daemon import MODEL, client_of, needs_model

pytestmark = needs_model

# The model's own template knows neither tools nor thoughts; this one has both, as Qwen's does.
TEMPLATE = pathlib.Path(__file__).with_name("tools.jinja")
CONFIG = """version: 1
models:
  - {{name: smollm2, path: {model}, context_length: 1024, chat_template: {template}, drafters: [{{name: lookup, kind: ngram}}]}}
server: {{port: 0}}
engine: {{threads: 2}}
"""
FUNCTION = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": FUNCTION}]
FLAT_TOOLS = [{"type": "function", **FUNCTION}]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tools")
    with client_of(folder, CONFIG.format(model=MODEL, template=TEMPLATE)) as one:
        yield one


def calling(city):
    function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


# Examples that so small a model imitates.
WEATHER = (("Paris", "sunny"), ("Rome", "rainy"), ("Oslo", "snowy"))


def weather_talk():
    talk = []
    for city, weather in WEATHER:
        talk += [{"role": "user", "content": f"What is the weather in {city}?"}, calling(city)]
        talk += [{"role": "tool", "tool_call_id": "call_1", "content": weather}]
    return talk + [{"role": "user", "content": "What is the weather in Berlin?"}]


def weather_items():
    """The same as items of a response."""
    items = []
    for city, weather in WEATHER:
        items += [{"role": "user", "content": f"What is the weather in {city}?"}]
        items += [{"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": json.dumps({"city": city})}]
        items += [{"type": "function_call_output", "call_id": "call_1", "output": weather}]
    return items + [{"role": "user", "content": "What is the weather in Berlin?"}]


def sums_talk():
    talk = []
    for question, answer in (("2+2", 4), ("3+4", 7), ("1+5", 6)):
        talk += [{"role": "user", "content": question}]
        talk += [{"role": "assistant", "content": f"<think>\nI add the numbers of {question}.\n</think>\n\nThe sum is {answer}."}]
    return talk + [{"role": "user", "content": "5+3"}]


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("talk, tools", [(weather_talk(), TOOLS), (sums_talk(), openai.omit)], ids=["call", "thoughts"])
def test_chats_say_the_same_streamed_and_speculated(client, talk, tools, temperature):
    def ask(drafter, **options):
        return client.chat.completions.create(
            model="smollm2", messages=talk, tools=tools, temperature=temperature, seed=3, max_tokens=48, extra_body={"speculation": {"drafter": drafter}}, **options
        )

    replies = [whole(ask("none")), whole(ask("lookup")), joined(ask("none", stream=True)), joined(ask("lookup", stream=True))]
    assert replies == [replies[0]] * 4
    if temperature == 0 and tools is TOOLS:
        assert replies[0] == ("", "", [("get_weather", '{"city": "Berlin"}')], "tool_calls")
    elif temperature == 0:
        content, reasoning, calls, finish = replies[0]
        assert content.startswith("The sum is") and "I add the numbers of 5+3." == reasoning and not calls and finish == "stop"


def test_thoughts_are_counted_and_switchable(client):
    def ask(**extra):
        return client.chat.completions.create(model="smollm2", messages=sums_talk(), temperature=0, max_tokens=48, extra_body=extra)

    apart = ask()
    details = apart.usage.completion_tokens_details
    assert 0 < details.reasoning_tokens < apart.usage.completion_tokens
    assert ask(reasoning_format="none").choices[0].message.content.startswith("<think>\nI add")
    hidden = ask(include_reasoning=False)
    assert not hasattr(hidden.choices[0].message, "reasoning_content")
    assert hidden.choices[0].message.content == apart.choices[0].message.content
    inside = ask(chat_template_kwargs={"enable_thinking": True})  # then the prompt ends with <think>
    assert inside.choices[0].message.reasoning_content.startswith("I add")


def test_a_response_has_items_and_goes_on_with_the_result(client):
    given = weather_items()
    arguments = dict(model="smollm2", input=given, tools=FLAT_TOOLS, temperature=0, max_output_tokens=48)
    reply = client.responses.create(**arguments)
    assert [(item.type, item.name, item.arguments) for item in reply.output] == [("function_call", "get_weather", '{"city": "Berlin"}')]
    with client.responses.stream(**arguments) as stream:
        types = [event.type for event in stream]
        assert stream.get_final_response().output[0].arguments == '{"city": "Berlin"}'
    assert "response.function_call_arguments.done" in types and "response.output_text.delta" not in types
    # As clients go on: with the items of the output and the result of the call. Thoughts that are sent back are accepted.
    call = reply.output[0]
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "windy"}
    after = client.responses.create(**arguments | {"input": given + [thought, call.model_dump(), result], "tool_choice": "none"})
    assert after.output[0].type == "message"


def test_a_demanded_call_comes_before_the_format_of_texts(client):
    """instructor and agents with an output type send both."""
    schema = {"type": "object", "properties": {"city": {"const": "Rome"}}, "required": ["city"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    arguments = dict(model="smollm2", messages=weather_talk(), temperature=0, max_tokens=48, tools=TOOLS)
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        reply = client.chat.completions.create(**arguments, tool_choice=choice, response_format=form).choices[0]
        assert reply.finish_reason == "tool_calls" and json.loads(reply.message.tool_calls[0].function.arguments) == {"city": "Berlin"}
    reply = client.chat.completions.create(**arguments, tool_choice="none", response_format=form).choices[0]
    assert json.loads(reply.message.content) == {"city": "Rome"}

def test_a_response_over_websocket_has_its_calls_in_the_conversation(client):
    with client.responses.connect() as connection:

        def ask(**options):
            connection.response.create(model="smollm2", tools=FLAT_TOOLS, temperature=0, max_output_tokens=48, **options)
            for event in connection:
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    return event.response

        first = ask(input=weather_items())
        assert first.output[0].name == "get_weather"
        result = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "windy"}
        second = ask(input=[result, {"role": "user", "content": "What is the weather in Madrid?"}], previous_response_id=first.id)
        assert second.output[0].type == "function_call" and json.loads(second.output[0].arguments) == {"city": "Madrid"}


def blocks_of(talk):
    """The talk in Anthropic's form."""
    out = []
    for turn in talk:
        if turn["role"] == "tool":
            out.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": turn["tool_call_id"], "content": turn["content"]}]})
        elif turn.get("tool_calls"):
            calls = [(call["id"], call["function"]) for call in turn["tool_calls"]]
            uses = [{"type": "tool_use", "id": i, "name": call["name"], "input": json.loads(call["arguments"])} for i, call in calls]
            out.append({"role": "assistant", "content": uses})
        else:
            out.append(turn)
    return out


@pytest.mark.parametrize("drafter", ["none", "lookup"])
def test_messages_have_the_same_calls_and_thoughts_as_chats(client, drafter):
    tools = [{"name": FUNCTION["name"], "input_schema": FUNCTION["parameters"]}]
    with anthropic.Anthropic(base_url=str(client.base_url).removesuffix("/v1/"), api_key="none", max_retries=0) as other:

        def ask(talk, **options):
            arguments = dict(model="smollm2", max_tokens=48, messages=blocks_of(talk), extra_body={"temperature": 0, "speculation": {"drafter": drafter}})
            whole = other.messages.create(**arguments, **options)
            with other.messages.stream(**arguments, **options) as stream:
                streamed = stream.get_final_message()
            assert [block.model_dump(exclude={"id"}) for block in streamed.content] == [block.model_dump(exclude={"id"}) for block in whole.content]
            assert streamed.stop_reason == whole.stop_reason and streamed.usage.output_tokens == whole.usage.output_tokens
            return whole

        called = ask(weather_talk(), tools=tools)
        assert called.stop_reason == "tool_use"
        assert [(block.type, block.name, block.input) for block in called.content] == [("tool_use", "get_weather", {"city": "Berlin"})]

        thought = ask(sums_talk())
        assert [block.type for block in thought.content] == ["thinking", "text"] and thought.stop_reason == "end_turn"
        assert thought.content[0].thinking == "I add the numbers of 5+3." and thought.content[1].text.startswith("The sum is")
        assert 0 < thought.usage.output_tokens_details.thinking_tokens < thought.usage.output_tokens
        inside = ask(sums_talk(), thinking={"type": "enabled", "budget_tokens": 1024})  # then the prompt ends with <think>
        assert inside.content[0].thinking.startswith("I add")

        # The client goes on with the blocks of the answer and the result of the call.
        after = weather_talk() + [{"role": "assistant", "content": [block.model_dump() for block in called.content]}]
        after.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": called.content[0].id, "content": "windy"}]})
        assert ask(after, tools=tools, tool_choice={"type": "none"}).content[0].type == "text"


SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"], "additionalProperties": False}
MESSAGE_TOOLS = [{"name": "get_weather", "input_schema": SCHEMA}, {"name": "now", "input_schema": {"type": "object", "additionalProperties": False}}]


@pytest.mark.parametrize("path", ["", "/models/smollm2"])
def test_messages_ask_for_a_call(client, path):
    base_url = str(client.base_url).removesuffix("/v1/") + path
    with anthropic.Anthropic(base_url=base_url, api_key="none", max_retries=0) as other:

        def ask(choice, temperature=0):
            arguments = dict(model="smollm2", max_tokens=64, messages=[{"role": "user", "content": "Hello"}], tools=MESSAGE_TOOLS, tool_choice=choice)
            arguments["extra_body"] = {"temperature": temperature, "seed": 5}
            whole = other.messages.create(**arguments)
            with other.messages.stream(**arguments) as stream:
                streamed = stream.get_final_message()
            assert [block.model_dump(exclude={"id"}) for block in streamed.content] == [block.model_dump(exclude={"id"}) for block in whole.content]
            return whole

        for temperature in (0, 1):
            any_call = ask({"type": "any", "disable_parallel_tool_use": True}, temperature)
            assert any_call.stop_reason == "tool_use" and [block.type for block in any_call.content] == ["tool_use"]
            named = ask({"type": "tool", "name": "get_weather"}, temperature).content
            assert [(block.type, block.name, list(block.input)) for block in named] == [("tool_use", "get_weather", ["city"])]
        assert {block.type for block in ask({"type": "none"}).content} == {"text"}
        assert other.messages.count_tokens(model="smollm2", messages=[{"role": "user", "content": "Hello"}]).input_tokens > 1


def test_tools_beside_a_format_are_a_call_or_an_answer(client):
    answer = {"type": "object", "properties": {"answer": {"type": "string", "maxLength": 20}}, "required": ["answer"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": answer, "strict": True}}
    tools = [{"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}} for tool in MESSAGE_TOOLS]
    seen = set()
    for talk, temperature in ((weather_talk(), 0), (sums_talk(), 0), (sums_talk(), 1), ([{"role": "user", "content": "Hello"}], 1)):
        arguments = dict(model="smollm2", messages=talk, tools=tools, response_format=wanted, temperature=temperature, seed=2, max_tokens=64)
        replies = [whole(client.chat.completions.create(**arguments)), joined(client.chat.completions.create(**arguments, stream=True))]
        assert replies[0] == replies[1]
        content, _, calls, finish = replies[0]
        seen.add(finish)
        if calls:
            assert not content and finish == "tool_calls" and calls[0][0] in ("get_weather", "now") and json.loads(calls[0][1]) is not None
        else:
            assert finish == "stop" and list(json.loads(content)) == ["answer"]
    assert "tool_calls" in seen
    call = whole(client.chat.completions.create(**arguments, tool_choice="required"))
    assert call[3] == "tool_calls"


def test_a_streamed_call_names_itself_once(client):
    chunks = client.chat.completions.create(model="smollm2", messages=weather_talk(), tools=TOOLS, temperature=0, max_tokens=48, stream=True)
    deltas = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or []]
    first, *rest = deltas
    assert (first.index, first.type, first.function.name) == (0, "function", "get_weather") and first.id.startswith("call_")
    assert rest and all((call.index, call.id, call.function.name) == (0, None, None) for call in rest)


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_ends_behind_the_only_call_that_is_allowed(client, stream):
    """The model is kept from ending it itself, and the prompt is in the cache from the first time on."""

    def ask(**extra):
        options = dict(stream=stream, stream_options={"include_usage": True} if stream else openai.omit)
        return client.chat.completions.create(
            model="smollm2", messages=weather_talk(), tools=TOOLS, temperature=0, max_tokens=400, extra_body={"ignore_eos": True, "speculation": {"drafter": "lookup"}, **extra}, **options
        )

    for _ in range(2):
        made = list(ask(parallel_tool_calls=False)) if stream else ask(parallel_tool_calls=False)
        said = joined(made) if stream else whole(made)
        assert said == ("", "", [("get_weather", '{"city": "Berlin"}')], "tool_calls")
        last = made[-1] if stream else made
    assert last.usage.completion_tokens < 60 and last.usage.prompt_tokens_details.cached_tokens > 20
    assert last.metrics["generation_time_ms"] > 0


def test_outputs_of_calls_may_be_parts_of_text(client):
    call = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"}

    def num_tokens(output):
        items = ["Weather?", call, {"type": "function_call_output", "call_id": "c", "output": output}]
        items[0] = {"role": "user", "content": items[0]}
        return client.responses.create(model="smollm2", input=items, max_output_tokens=1).usage.input_tokens

    assert num_tokens([{"type": "input_text", "text": "sunny"}]) == num_tokens("sunny")
    with pytest.raises(openai.BadRequestError, match="only text is offered"):
        num_tokens([{"type": "input_image", "image_url": "x"}])
