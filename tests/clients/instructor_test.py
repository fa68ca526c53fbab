"""instructor: objects out of chats, by tools and by schemas, whole and in part."""
import instructor
import openai
import pytest

from examples import ABOUT_A_PERSON, Person

MESSAGES = [{"role": "user", "content": ABOUT_A_PERSON}]
OPTIONS = dict(model="small", messages=MESSAGES, max_tokens=300, temperature=0, max_retries=0)


# Not JSON, which asks for any object and leaves the schema to the model's understanding of the prompt.
@pytest.fixture(params=["TOOLS", "JSON_SCHEMA", "RESPONSES_TOOLS"])
def client(base_url, request):
    return instructor.from_openai(openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=300), mode=instructor.Mode[request.param])


def test_an_object(client):
    assert isinstance(client.create(response_model=Person, **OPTIONS), Person)


def test_an_object_grows_while_it_streams(base_url):
    client = instructor.from_openai(openai.OpenAI(base_url=base_url, api_key="none", max_retries=0), mode=instructor.Mode.JSON_SCHEMA)
    parts = list(client.create_partial(response_model=Person, **OPTIONS))
    assert len(parts) > 1 and parts[-1].name and parts[-1].age is not None
