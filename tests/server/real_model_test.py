"""A daemon with a real model: the openai client gets the same text with and without speculation."""
import os
import pathlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from real_daemon import MODEL, client_of, needs_model

DRAFTER = pathlib.Path(os.environ.get("PACELINE_BINARY_DIR", "")) / "drafters" / "smollm2-12-layers.gguf"

pytestmark = needs_model

CONFIG = f"""version: 1
models:
  - name: smollm2
    path: {MODEL}
    context_length: 512
    drafters:
      - {{name: lookup, kind: ngram, ngram_min: 1}}
      - {{name: layers, kind: model, path: {DRAFTER}}}
server: {{port: 0}}
engine: {{threads: 2}}
"""
MESSAGES = [{"role": "user", "content": "Repeat after me: the red cat, the red dog, the red cat, the red dog."}]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with client_of(tmp_path_factory.mktemp("real"), CONFIG) as one:
        yield one


def extra(drafter, length=4):
    return {"speculation": {"drafter": drafter, "draft_length": length}, "ignore_eos": True}


def chat(client, drafter, temperature):
    reply = client.chat.completions.create(
        model="smollm2", messages=MESSAGES, max_tokens=32, seed=7, temperature=temperature, extra_body=extra(drafter)
    )
    return reply.choices[0].message.content, reply.model_extra["metrics"].get("speculative_decoding")


@pytest.mark.parametrize("temperature", [0, 1])
def test_chats_are_the_same_with_and_without_speculation(client, temperature):
    plain, figures = chat(client, "none", temperature)
    assert len(plain) > 20 and figures is None
    for drafter in ("lookup", "layers"):
        text, figures = chat(client, drafter, temperature)
        assert text == plain, drafter
        assert figures["num_draft_tokens"] > 0, drafter


def test_streamed_completions_are_the_same_side_by_side(client):
    def completion(number, drafter, length):
        chunks = client.completions.create(
            model="smollm2", prompt="1, 2, 3, 4, 5, 6," + " 7," * number, max_tokens=24, seed=number, temperature=number % 2,
            stream=True, extra_body=extra(drafter, length),
        )  # fmt: skip
        return "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)

    plain = [completion(number, "none", 1) for number in range(3)]
    settings = [("lookup", 1), ("lookup", 8), ("layers", 4)]
    with ThreadPoolExecutor(max_workers=3) as pool:
        for drafter, length in settings:
            assert list(pool.map(lambda number: completion(number, drafter, length), range(3))) == plain, (drafter, length)
