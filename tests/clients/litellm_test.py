"""LiteLLM, which translates between interfaces, as OpenAI's, vLLM's and Anthropic's client."""
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one

import litellm
import pytest

from examples import ABOUT_A_PERSON, ABOUT_WEATHER, QUESTION, Person, Weather

PROVIDERS = {"openai": "openai/small", "vllm": "hosted_vllm/small", "anthropic": "anthropic/small"}


@pytest.fixture(params=PROVIDERS)
def options(served, request):
    base = served.url if request.param == "anthropic" else served.url + "/v1"
    return dict(model=PROVIDERS[request.param], api_base=base, api_key="none", max_tokens=60, temperature=0, timeout=300, num_retries=0)


def test_a_chat_whole_and_streamed(options):
    whole = litellm.completion(**options, messages=QUESTION)
    text = whole.choices[0].message.content
    assert text and whole.usage.completion_tokens > 0
    chunks = list(litellm.completion(**options, messages=QUESTION, stream=True))
    assert len(chunks) > 2 and "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text


@pytest.mark.parametrize("provider", ["openai", "vllm"])
def test_structured_output_and_tools(served, provider):
    options = dict(model=PROVIDERS[provider], api_base=served.url + "/v1", api_key="none", max_tokens=120, temperature=0, timeout=300)
    reply = litellm.completion(**options, messages=[{"role": "user", "content": ABOUT_A_PERSON}], response_format=Person)
    assert Person.model_validate_json(reply.choices[0].message.content)
    tool = {"type": "function", "function": {"name": "weather", "parameters": Weather.model_json_schema()}}
    asked = [{"role": "user", "content": ABOUT_WEATHER}]
    call = litellm.completion(**options, messages=asked, tools=[tool], tool_choice="required").choices[0].message.tool_calls[0]
    assert call.function.name == "weather" and Weather.model_validate_json(call.function.arguments)


def test_completions_and_responses(served):
    options = dict(model="openai/small", api_base=served.url + "/v1", api_key="none", temperature=0, timeout=300)
    assert litellm.text_completion(**options, prompt="Once upon a time", max_tokens=8).choices[0].text
    assert litellm.responses(**options, input="What is the capital of France?", max_output_tokens=20).output[0].content[0].text


def test_errors_are_its_own(served):
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(model="openai/none", api_base=served.url + "/v1", api_key="none", messages=QUESTION, num_retries=0)
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(model="openai/small", api_base=served.url + "/v1", api_key="none", messages=[{"role": "user", "content": "word " * 9000}], num_retries=0)
