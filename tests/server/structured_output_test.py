"""Outputs that must match a schema, a pattern, a grammar or a list, with a real model and the openai client."""
import json
import re
from typing import Literal

import jsonschema
import openai
import pydantic
import pytest

from real_daemon import MODEL, client_of, needs_model

pytestmark = needs_model

CONFIG = f"""version: 1
models:
  - {{name: smollm2, path: {MODEL}, context_length: 1024}}
server: {{port: 0}}
engine: {{threads: 2}}
"""
MESSAGES = [{"role": "user", "content": "Tell me about a person called Ada, as JSON."}]


class Address(pydantic.BaseModel, extra="forbid"):
    street: str = pydantic.Field(max_length=24)
    number: int = pydantic.Field(ge=0, le=9999)


class Person(pydantic.BaseModel, extra="forbid"):
    """Bounded, so that a reply ends by itself whatever so small a model says."""

    name: str = pydantic.Field(max_length=16)
    age: int = pydantic.Field(ge=0, le=150)
    role: Literal["engineer", "writer"]
    married: bool
    address: Address
    tags: list[Literal["a", "b", "c"]] = pydantic.Field(max_length=3)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with client_of(tmp_path_factory.mktemp("structured"), CONFIG) as one:
        try:
            one.chat.completions.create(model="smollm2", messages=MESSAGES, max_tokens=1, response_format={"type": "json_object"})
        except openai.BadRequestError as refused:
            assert "no grammar library" in refused.message
            pytest.skip("this build has no grammar library")
        yield one


def test_text_behind_the_end_is_no_draft(client):
    """Drafters that remember outputs also propose their end, and what came after it."""
    for _ in range(4):
        reply = ask(client, drafter="suffix", temperature=0, extra={"guided_choice": ["yes", "yes, always"]})
        assert reply.choices[0].message.content in ("yes", "yes, always") and reply.choices[0].finish_reason == "stop"


def ask(client, drafter="auto", messages=MESSAGES, **arguments):
    extra = {"speculation": {"drafter": drafter}} | arguments.pop("extra", {})
    return client.chat.completions.create(model="smollm2", messages=messages, seed=5, extra_body=extra, **({"max_tokens": 200} | arguments))


@pytest.mark.parametrize("temperature", [0, 1])
def test_parsed_objects_are_the_same_with_and_without_speculation(client, temperature):
    def parsed(drafter):
        return client.chat.completions.parse(
            model="smollm2", messages=MESSAGES, response_format=Person, max_tokens=300, temperature=temperature, seed=5, extra_body={"speculation": {"drafter": drafter}}
        )

    plain = parsed("none")
    assert isinstance(plain.choices[0].message.parsed, Person), plain.choices[0]
    assert plain.choices[0].finish_reason == "stop"
    for drafter in ("auto", "forced", "ngram", "suffix"):
        reply = parsed(drafter)
        assert reply.choices[0].message.content == plain.choices[0].message.content, drafter
        if drafter == "forced":
            figures = reply.model_extra["metrics"]["speculative_decoding"]
            assert figures["draft_acceptance_rate"] > 0.4 and figures["num_accepted_draft_tokens"] >= 5, figures


@pytest.mark.parametrize("rule", ["rejection", "block", "typical"])
def test_other_rules_keep_to_the_schema(client, rule):
    for seed in range(2):
        reply = client.chat.completions.parse(
            model="smollm2", messages=MESSAGES, response_format=Person, max_tokens=300, seed=seed, extra_body={"speculation": {"drafter": "auto", "rule": rule}}
        )
        assert isinstance(reply.choices[0].message.parsed, Person)


def test_streams_and_responses_match_too(client):
    schema = Person.model_json_schema()
    whole = ask(client, temperature=0, response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": schema}})
    jsonschema.validate(json.loads(whole.choices[0].message.content), schema)
    chunks = ask(client, temperature=0, stream=True, response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": schema}})
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    response = client.responses.parse(model="smollm2", input="A person called Ada, please.", text_format=Person, max_output_tokens=300, temperature=0)
    assert isinstance(response.output_parsed, Person)


def test_any_object_a_pattern_a_list_and_a_grammar(client):
    def text(**extra):
        return ask(client, temperature=1, max_tokens=100, extra=extra).choices[0].message.content

    short = [{"role": "user", "content": 'Reply with {"ok": true}.'}]  # of Ada there is no end of things to say
    reply = ask(client, messages=short, temperature=0, response_format={"type": "json_object"}).choices[0]
    assert reply.finish_reason == "stop" and isinstance(json.loads(reply.message.content), dict)
    assert re.fullmatch(r"[A-Z][a-z]{2,5}, [0-9]{4}", text(structured_outputs={"regex": r"[A-Z][a-z]{2,5}, [0-9]{4}"}))
    assert text(guided_choice=["yes", "no", "perhaps, if it rains"]) in ("yes", "no", "perhaps, if it rains")
    assert re.fullmatch(r"(ab)+c", text(grammar='root ::= pair+ "c"\npair ::= "ab"'))


def test_completions_take_them_as_well(client):
    reply = client.completions.create(model="smollm2", prompt="A number: ", max_tokens=20, extra_body={"guided_regex": "[0-9]{3}"})
    assert re.fullmatch("[0-9]{3}", reply.choices[0].text)


def test_several_choices_share_a_schema(client):
    reply = ask(client, temperature=1, n=3, response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": Person.model_json_schema()}})
    assert len(reply.choices) == 3
    for choice in reply.choices:
        assert choice.finish_reason == "stop", choice
        Person.model_validate_json(choice.message.content)


@pytest.mark.parametrize(
    "arguments, param, text",
    [
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}}}},
         "response_format.json_schema.schema", "/properties/a/uniqueItems"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "thing"}}}}, "response_format.json_schema.schema", "type"),
        ({"extra": {"guided_regex": "(a"}}, "guided_regex", ""),
        ({"extra": {"grammar": "root ::= missing"}}, "grammar", ""),
        ({"response_format": {"type": "json_object"}, "extra": {"min_tokens": 5}}, "min_tokens", "response_format"),
        ({"response_format": {"type": "json_object"}, "extra": {"ignore_eos": True}}, "ignore_eos", "response_format"),
        ({"response_format": {"type": "json_object"}, "temperature": 0, "extra": {"use_beam_search": True}}, "use_beam_search", "response_format"),
    ],
)
def test_what_cannot_be_enforced_is_refused_by_its_place(client, arguments, param, text):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, **arguments)
    assert refused.value.param == param, refused.value.message
    assert text in refused.value.message
    assert "/tmp" not in refused.value.message and ".cc" not in refused.value.message
