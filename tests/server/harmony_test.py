"""The format of gpt-oss with a real model that has another template: calls, thoughts and constraints in harmony, by outside clients."""
import json

import anthropic
import openai
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from chat_replies import joined, whole
from real_daemon import MODEL, client_of, needs_model

pytestmark = needs_model

# What gpt-oss's template writes of a conversation, in a few lines. The spellings of the marks are plain text in this model's vocabulary.
TEMPLATE = """{%- set last = namespace(name='') -%}
<|start|>system<|message|>Reasoning: {{ reasoning_effort or 'medium' }}{% if reasoning_effort == 'high' %}, very thorough{% endif %}<|end|>
{%- if tools %}<|start|>developer<|message|>{% for tool in tools %}// {{ tool.function.description + ' ' + tool.function.name }} {% endfor %}<|end|>{% endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{%- if message.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ message.thinking }}<|end|>{% endif %}
{%- if 'content' in message %}<|start|>assistant<|channel|>final<|message|>{{ message.content + '' }}<|end|>{% endif %}
{%- if message.tool_calls %}{% set last.name = message.tool_calls[0].function.name %}<|start|>assistant<|channel|>commentary to=functions.{{ last.name }} <|constrain|>json<|message|>
{{- message.tool_calls[0].function.arguments | tojson }}<|call|>{% endif %}
{%- elif message.role == 'tool' %}<|start|>functions.{{ last.name }} to=assistant<|channel|>commentary<|message|>{{ message.content }}<|end|>
{%- else %}<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"""
CONFIG = """version: 1
models:
  - {{name: smollm2, path: {model}, context_length: 2048, chat_template: {template}, drafters: [{{name: lookup, kind: ngram}}]}}
server: {{port: 0}}
engine: {{threads: 2}}
"""
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"], "additionalProperties": False}
FUNCTION = {"name": "get_weather", "parameters": PARAMETERS}
TOOLS = [{"type": "function", "function": FUNCTION}, {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "additionalProperties": False}}}]
STOP = ["<|call|>", "<|return|>"]  # the ends of a turn, which are special tokens in gpt-oss's vocabulary


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("harmony")
    (folder / "chat.jinja").write_text(TEMPLATE)
    with client_of(folder, CONFIG.format(model=MODEL, template=folder / "chat.jinja")) as one:
        yield one


def calling(city):
    function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
    return {"role": "assistant", "content": None, "reasoning_content": f"I ask for {city}.", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


def weather_talk():
    talk = []
    for city, weather in (("Paris", "sunny"), ("Rome", "rainy"), ("Oslo", "snowy")):
        talk += [{"role": "user", "content": f"What is the weather in {city}?"}, calling(city)]
        talk += [{"role": "tool", "tool_call_id": "call_1", "content": weather}]
    return talk + [{"role": "user", "content": "What is the weather in Berlin?"}]


def sums_talk():
    talk = []
    for question, answer in (("2+2", 4), ("3+4", 7), ("1+5", 6)):
        talk += [{"role": "user", "content": question}, {"role": "assistant", "content": f"The sum is {answer}.", "reasoning_content": f"I add {question}."}]
    return talk + [{"role": "user", "content": "5+3"}]


def said(client, talk, extra_body={}, **options):
    """The same reply whole and streamed, plain and speculative."""
    replies = []
    for drafter in ("none", "lookup"):
        for stream in (False, True):
            extra = {"speculation": {"drafter": drafter}} | extra_body
            arguments = {"temperature": 0, "seed": 3, "max_tokens": 64, "stop": STOP} | options
            reply = client.chat.completions.create(model="smollm2", messages=talk, stream=stream, extra_body=extra, **arguments)
            replies.append(joined(reply) if stream else whole(reply))
    assert replies == [replies[0]] * 4
    return replies[0]


def test_a_call_behind_thoughts(client):
    content, reasoning, calls, finish = said(client, weather_talk(), tools=TOOLS)
    assert (content, reasoning, finish) == ("", "I ask for Berlin.", "tool_calls")
    assert [(name, json.loads(arguments)) for name, arguments in calls] == [("get_weather", {"city": "Berlin"})]


def test_an_answer_behind_thoughts(client):
    content, reasoning, calls, finish = said(client, sums_talk(), stop=[*STOP, "<|end|><|start|>user"], max_tokens=60)
    assert content.startswith("The sum is") and reasoning.startswith("I add 5+3") and not calls
    reply = client.chat.completions.create(model="smollm2", messages=sums_talk(), temperature=0, max_tokens=60)
    assert 0 < reply.usage.completion_tokens_details.reasoning_tokens < reply.usage.completion_tokens


@pytest.mark.parametrize("temperature", [0, 1.5])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "now"}}], ids=["any", "named"])
def test_a_call_that_is_asked_for(client, choice, temperature):
    content, _, calls, finish = said(client, [{"role": "user", "content": "Hello"}], tools=TOOLS, tool_choice=choice, temperature=temperature)
    assert not content and finish == "tool_calls" and len(calls) == 1
    name, arguments = calls[0]
    assert name == "now" if choice != "required" else name in ("now", "get_weather")
    arguments = json.loads(arguments)
    assert arguments == {} if name == "now" else list(arguments) == ["city"]


def test_structured_output_is_the_final_message(client):
    schema = {"type": "object", "properties": {"sum": {"type": "integer", "maximum": 99}}, "required": ["sum"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "sum", "schema": schema}}
    content, _, _, finish = said(client, sums_talk(), response_format=wanted)
    assert list(json.loads(content)) == ["sum"] and finish == "stop"


def test_responses_and_messages_have_the_same_call(client):
    flat = [{"type": "function", **tool["function"]} for tool in TOOLS]
    items = [{"role": "user", "content": "Hello"}]
    named = {"type": "function", "name": "get_weather"}
    reply = client.responses.create(model="smollm2", input=items, tools=flat, tool_choice=named, temperature=0, max_output_tokens=64)
    assert [item.type for item in reply.output if item.type != "reasoning"] == ["function_call"] and reply.output[-1].name == "get_weather"
    with client.responses.stream(model="smollm2", input=items, tools=flat, tool_choice=named, temperature=0, max_output_tokens=64) as stream:
        events = list(stream)
    assert events[-1].response.output[-1].arguments == reply.output[-1].arguments
    result = {"type": "function_call_output", "call_id": reply.output[-1].call_id, "output": "windy"}
    client.responses.create(model="smollm2", input=[result], previous_response_id=reply.id, tools=flat, max_output_tokens=8)

    tools = [{"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS]
    with anthropic.Anthropic(base_url=str(client.base_url).removesuffix("/v1/"), api_key="none", max_retries=0) as other:
        message = other.messages.create(
            model="smollm2", max_tokens=64, messages=items, tools=tools, tool_choice={"type": "tool", "name": "get_weather"}, extra_body={"temperature": 0}
        )
    assert message.stop_reason == "tool_use"
    assert message.content[-1].input == json.loads(reply.output[-1].arguments)


def test_effort_and_turns_are_rendered_as_the_template_expects_them(client):
    """The daemon counts the tokens of what jinja2 renders. The turns have one call for each message, which the template accepts."""

    calls = [calling("Paris"), calling("Rome")]
    both = calls[0] | {"tool_calls": [calls[0]["tool_calls"][0], calls[1]["tool_calls"][0] | {"id": "call_2"}]}
    talk = [{"role": "user", "content": "Both?"}, both]
    talk += [{"role": "tool", "tool_call_id": "call_2", "content": "rainy"}, {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    arguments = [{"function": {"name": "get_weather", "arguments": {"city": city}}} for city in ("Paris", "Rome")]
    expected = environment.from_string(TEMPLATE).render(
        messages=[
            {"role": "user", "content": "Both?"},
            {"role": "assistant", "thinking": "I ask for Paris.", "tool_calls": arguments[:1]},
            {"role": "tool", "content": "sunny"},
            {"role": "assistant", "tool_calls": arguments[1:]},
            {"role": "tool", "content": "rainy"},
        ],
        add_generation_prompt=True,
    )
    url = str(client.base_url).removesuffix("/v1/")
    of_text = client.post(url + "/tokenize", body={"prompt": expected, "add_special_tokens": False}, cast_to=object)
    assert client.post(url + "/tokenize", body={"messages": talk}, cast_to=object)["tokens"] == of_text["tokens"]

    def prompt_tokens(effort):
        reply = client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "x"}], max_tokens=1, **effort)
        return reply.usage.prompt_tokens

    counts = []
    for effort in ("low", "high"):
        text = environment.from_string(TEMPLATE).render(messages=[{"role": "user", "content": "x"}], add_generation_prompt=True, reasoning_effort=effort)
        counts.append(len(client.post(url + "/tokenize", body={"prompt": text, "add_special_tokens": False}, cast_to=object)["tokens"]))
        assert prompt_tokens({"reasoning_effort": effort}) == counts[-1]
    assert counts[0] != counts[1]
    with pytest.raises(openai.BadRequestError, match="knows low, medium and high"):
        prompt_tokens({"reasoning_effort": "minimal"})


def test_a_name_that_no_header_can_have_is_refused(client):
    talk = [{"role": "user", "content": "Hello"}]
    flat = {"type": "function", "name": "get weather", "parameters": PARAMETERS}
    with pytest.raises(openai.BadRequestError) as of_chat:
        client.chat.completions.create(model="smollm2", messages=talk, max_tokens=4, tools=[{"type": "function", "function": {"name": "get weather"}}])
    with pytest.raises(openai.BadRequestError) as of_response:
        client.responses.create(model="smollm2", input=talk, max_output_tokens=16, tools=[flat])
    for refused in (of_chat, of_response):
        assert refused.value.param == "tools" and "get weather" in refused.value.message


def test_a_call_that_is_cut_in_front_of_its_arguments_has_none(client):
    """The header alone has at least 20 tokens. The first limits end within it, and a later one directly after it."""
    named = {"type": "function", "function": {"name": "now"}}
    found = []
    for limit in range(8, 64):
        reply = client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "Hello"}], tools=TOOLS, tool_choice=named, max_tokens=limit, temperature=0)
        calls = reply.choices[0].message.tool_calls
        if calls:
            found.append((calls[0].function.arguments, reply.choices[0].finish_reason))
            break
    assert found == [("", "length")]
