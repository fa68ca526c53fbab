"""Beam search as clients of OpenAI and vLLM ask for it."""
import openai
import pytest


@pytest.fixture
def client(daemon):
    with openai.OpenAI(base_url=daemon.url + "/v1", api_key="none", max_retries=0) as one:
        yield one


SEARCH = dict(model="hash", prompt="abcabcabc", max_tokens=20, n=3)


def search(client, **extra):
    return client.completions.create(**SEARCH, extra_body={"use_beam_search": True, "ignore_eos": True, **extra})


def test_gives_n_different_choices_and_the_same_ones_again(client):
    found = search(client)
    texts = [choice.text for choice in found.choices]
    assert [choice.index for choice in found.choices] == [0, 1, 2]
    assert len(set(texts)) == 3
    assert all(choice.finish_reason == "length" for choice in found.choices)
    assert found.usage.completion_tokens == 60 and found.usage.prompt_tokens > 0
    for drafter in ("none", "lookup"):
        again = search(client, speculation={"drafter": drafter, "draft_length": 4})
        assert [choice.text for choice in again.choices] == texts


def test_one_hypothesis_is_temperature_0(client):
    greedy = client.completions.create(model="hash", prompt="abcabcabc", max_tokens=20, temperature=0)
    one = client.completions.create(model="hash", prompt="abcabcabc", max_tokens=20, extra_body={"use_beam_search": True})
    assert one.choices[0].text == greedy.choices[0].text
    wide = client.completions.create(
        model="hash", prompt="abcabcabc", max_tokens=20, extra_body={"use_beam_search": True, "beam_width": 4}
    )
    assert len(wide.choices) == 1


def test_chat_and_streams_give_the_same_choices(client):
    arguments = dict(model="hash", messages=[{"role": "user", "content": "hello"}], max_tokens=12, n=2)
    extra = {"use_beam_search": True, "length_penalty": 0.5, "ignore_eos": True}
    whole = client.chat.completions.create(**arguments, extra_body=extra)
    texts = {0: "", 1: ""}
    for chunk in client.chat.completions.create(**arguments, extra_body=extra, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert [texts[0], texts[1]] == [choice.message.content for choice in whole.choices]


def test_several_prompts_have_their_own_choices(client):
    both = client.completions.create(
        model="hash", prompt=["abcabcabc", "xyz"], max_tokens=20, n=3, extra_body={"use_beam_search": True, "ignore_eos": True}
    )
    assert [choice.index for choice in both.choices] == list(range(6))
    assert [choice.text for choice in both.choices[:3]] == [choice.text for choice in search(client).choices]


@pytest.mark.parametrize("field, value", [("temperature", 0.7), ("top_p", 0.5), ("logprobs", 2), ("beam_width", 2)])
def test_what_it_cannot_act_on_is_refused_by_name(daemon, field, value):
    body = {**SEARCH, "use_beam_search": True, field: value}
    status, _, reply = daemon.post("/v1/completions", body)
    assert status == 400
    assert reply["error"]["param"] == field
