"""LangChain's ChatOpenAI over chats and responses."""
import asyncio

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI

from examples import ABOUT_A_PERSON, ABOUT_WEATHER, Person, Weather

QUESTION = "What is the capital of France?"
LOOP = asyncio.new_event_loop()  # the library keeps connections for later clients, and they belong to a loop


@pytest.fixture(params=["chat", "responses"])
def llm(base_url, request):
    return ChatOpenAI(
        base_url=base_url, api_key="none", model="small", max_retries=0, timeout=300, temperature=0, max_tokens=120, use_responses_api=request.param == "responses"
    )


def test_a_message_whole_streamed_and_asynchronous(llm):
    whole = llm.invoke(QUESTION)
    assert whole.text and whole.usage_metadata["output_tokens"] > 0
    chunks = list(llm.stream(QUESTION))
    assert len(chunks) > 2 and "".join(chunk.text for chunk in chunks) == whole.text
    assert LOOP.run_until_complete(llm.ainvoke(QUESTION)).text == whole.text
    assert [message.text for message in llm.batch([QUESTION, QUESTION])] == [whole.text] * 2


def test_structured_output_is_parsed(llm):
    assert isinstance(llm.with_structured_output(Person).invoke(ABOUT_A_PERSON), Person)
    assert isinstance(llm.with_structured_output(Person, method="function_calling").invoke(ABOUT_A_PERSON), Person)


def test_a_tool_is_called_and_its_result_is_read(llm):
    talk = [HumanMessage(ABOUT_WEATHER)]
    called = llm.bind_tools([Weather], tool_choice="any").invoke(talk)
    assert called.tool_calls and called.tool_calls[0]["name"] == "Weather"
    assert Weather(**called.tool_calls[0]["args"])
    result = ToolMessage("sunny, 20 degrees", tool_call_id=called.tool_calls[0]["id"])
    answer = llm.bind_tools([Weather], tool_choice="none").invoke(talk + [called, result])
    assert answer.text and not answer.tool_calls


def test_logprobs_of_a_chat(base_url):
    llm = ChatOpenAI(base_url=base_url, api_key="none", model="small", max_retries=0, max_tokens=8, temperature=0, logprobs=True, top_logprobs=2)
    message = llm.invoke(QUESTION)
    content = message.response_metadata["logprobs"]["content"]
    assert "".join(entry["token"] for entry in content) == message.text and all(len(entry["top_logprobs"]) == 2 for entry in content)


def test_completions(base_url):
    llm = OpenAI(base_url=base_url, api_key="none", model="small", max_retries=0, max_tokens=16, temperature=0)
    assert "".join(llm.stream("Once upon a time")) == llm.invoke("Once upon a time") != ""
