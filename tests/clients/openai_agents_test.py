"""OpenAI's agent loop over chats, responses and the Responses WebSocket mode."""
import asyncio

import agents
import openai
import pytest
from agents.models.openai_responses import OpenAIResponsesWSModel

from examples import ABOUT_A_PERSON, ABOUT_WEATHER, Person

agents.set_tracing_disabled(True)
SETTINGS = dict(temperature=0, max_tokens=120)
MODELS = {"chat": agents.OpenAIChatCompletionsModel, "responses": agents.OpenAIResponsesModel, "websocket": OpenAIResponsesWSModel}


@pytest.fixture(params=MODELS)
def run(base_url, request):
    """Runs one agent on the daemon; the result."""

    def ask(question, streamed=False, settings={}, **options):
        async def loop():
            async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=300) as client:
                model = MODELS[request.param](model="small", openai_client=client)
                agent = agents.Agent(name="assistant", model=model, model_settings=agents.ModelSettings(**SETTINGS | settings), **options)
                if not streamed:
                    return await agents.Runner.run(agent, question, max_turns=4)
                result = agents.Runner.run_streamed(agent, question, max_turns=4)
                result.texts = [e.data.delta async for e in result.stream_events() if e.type == "raw_response_event" and e.data.type == "response.output_text.delta"]
                return result

        return asyncio.run(loop())

    return ask


def test_an_answer_whole_and_streamed(run):
    whole = run("What is the capital of France?")
    streamed = run("What is the capital of France?", streamed=True)
    assert whole.final_output and whole.final_output == streamed.final_output == "".join(streamed.texts)
    assert whole.raw_responses[0].usage.output_tokens > 0


def weather_tool(asked):
    """A function of the client that notes the cities in `asked`. It is offered once: a small model may call it again and again."""

    @agents.function_tool(is_enabled=lambda context, agent: not asked)
    def get_weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "sunny, 20 degrees"

    return get_weather


def test_a_function_is_called_and_the_loop_goes_on(run):
    asked = []
    result = run(ABOUT_WEATHER, tools=[weather_tool(asked)], settings={"tool_choice": "required"})
    assert asked, result.new_items
    kinds = [item.type for item in result.new_items]
    assert kinds[:2] == ["tool_call_item", "tool_call_output_item"] and kinds[-1] == "message_output_item"
    assert result.final_output


def test_a_call_comes_before_an_output_of_a_type(run):
    asked = []
    result = run(ABOUT_WEATHER, tools=[weather_tool(asked)], output_type=Person, settings={"tool_choice": "required"})
    assert asked and isinstance(result.final_output, Person)


def test_an_output_type_is_parsed(run):
    assert isinstance(run(ABOUT_A_PERSON, output_type=Person).final_output, Person)
