"""The requests of all clients."""
import pydantic

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class Closed(pydantic.BaseModel, extra="forbid"):
    """A small model finds no end of a number or of further members."""


class Person(Closed):
    """Describes a person."""

    name: str = pydantic.Field(max_length=40)
    age: int = pydantic.Field(ge=0, le=130)


ABOUT_A_PERSON = "Ada is a mathematician, 36 years old. Who is she?"


class Weather(Closed):
    """Tells the weather of a city."""

    city: str = pydantic.Field(max_length=40)


ABOUT_WEATHER = "What is the weather in Berlin? Call the tool."
