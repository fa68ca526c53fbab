"""What lm-eval's `local-completions` sends and how it reads the answer: contexts with continuations as token ids, a batch a
request, scored by `echo` with `logprobs: 1`; and texts to be continued."""
import json
import math

import pytest

EOS = 257  # of the hash model: 256 bytes, then BOS and EOS


def score(daemon, pairs, **changes):
    """Sum of log-probabilities and greediness of each continuation after its context."""
    body = {"model": "hash", "prompt": [c + t for c, t in pairs], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
    status, _, reply = daemon.post("/v1/completions", body | changes, {"Authorization": "Bearer "})
    assert status == 200, reply
    assert len(reply["choices"]) == len(pairs)
    scores = []
    for choice, (context, continuation) in zip(sorted(reply["choices"], key=lambda c: c["index"]), pairs):
        # One token is generated: everything but the last entry is the prompt's.
        part = slice(len(context), None if changes.get("max_tokens") == 0 else -1)
        logprobs = choice["logprobs"]["token_logprobs"][part]
        tops = choice["logprobs"]["top_logprobs"][part]
        assert len(logprobs) == len(tops) == len(continuation)
        scores.append((sum(logprobs), all(value == max(top.values()) for value, top in zip(logprobs, tops))))
    return scores


def ids(text):
    return list(text.encode())


PAIRS = [
    (ids("The capital of France is"), ids(" Paris")),
    ([256], ids("x")),  # the empty context is the prefix token
    (ids("long ") * 300, ids(" end")),
    (ids("special"), [EOS, 256, 258]),
    (ids("broken"), [0xE2, 0x82]),  # half a character
    ([1], [2]),
]


def test_a_batch_scores_as_its_parts_do(daemon):
    together = score(daemon, PAIRS)
    assert together == [score(daemon, [pair])[0] for pair in PAIRS]
    assert all(total < 0 and not greedy for total, greedy in together[:3])


def test_the_scores_are_the_same_without_a_generated_token(daemon):
    assert score(daemon, PAIRS, max_tokens=0) == score(daemon, PAIRS)


@pytest.mark.parametrize("drafter", ["none", "lookup"])
def test_the_greedy_continuation_is_known_as_such(daemon, drafter):
    body = {"prompt": ids("once"), "max_tokens": 12, "temperature": 0, "ignore_eos": True, "return_token_ids": True, "speculation": {"drafter": drafter}}
    reply = daemon.post("/v1/completions", body)[2]
    continuation = reply["choices"][0]["token_ids"]
    [(total, greedy)] = score(daemon, [(ids("once"), continuation)], speculation={"drafter": drafter})
    assert greedy and total < 0
    off = continuation[:-1] + [(continuation[-1] + 1) % 256]
    assert not score(daemon, [(ids("once"), off)])[0][1]


def test_an_end_of_text_token_is_counted_as_the_generated_one(daemon):
    """Else the last token of the continuation would be taken for it, and left out of the sum."""
    pair = (ids("context"), ids("continuation"))
    plain = score(daemon, [pair])
    assert score(daemon, [pair], logit_bias={str(EOS): 100}) == plain
    # A stop string takes the text of the generated token, not its place.
    forced = {"logit_bias": {str(ord("z")): 100}}
    assert score(daemon, [pair], stop=["z"], **forced) == plain


def test_the_probabilities_of_all_continuations_are_one(daemon):
    """The five best a position, and what is left: they cannot exceed 1, and the chosen one is among them or below them."""
    body = {"prompt": [ids("abc")], "temperature": 0, "max_tokens": 1, "logprobs": 5, "echo": True}
    choice = daemon.post("/v1/completions", body)[2]["choices"][0]["logprobs"]
    assert choice["token_logprobs"][0] is None and choice["top_logprobs"][0] is None
    for chosen, top in list(zip(choice["token_logprobs"], choice["top_logprobs"]))[1:]:
        assert 5 <= len(top) <= 6
        assert sum(map(math.exp, top.values())) < 1
        assert chosen in top.values()


def test_texts_are_continued_as_generation_tasks_ask(daemon):
    body = {"model": "hash", "prompt": ["Question: a?\nAnswer:", "Question: b?\nAnswer:"], "max_tokens": 64, "temperature": 0, "seed": 1234}
    stop = ["Question:", "</s>", "<|im_end|>", "\nclass", "\ndef", "\n#", "\nif", "\nprint"]
    status, _, reply = daemon.post("/v1/completions", body | {"stop": stop})
    assert status == 200, reply
    assert [choice["index"] for choice in reply["choices"]] == [0, 1]
    assert not any(word in choice["text"] for choice in reply["choices"] for word in stop)


def test_a_prompt_fills_the_context_but_for_the_generated_token(daemon):
    full = ids("x" * 4095)
    assert len(score(daemon, [(full[:-4], full[-4:])])) == 1
    body = {"prompt": [full + [1]], "max_tokens": 1, "logprobs": 1, "echo": True}
    assert daemon.post("/v1/completions", body)[2]["error"]["code"] == "context_length_exceeded"


def test_of_several_models_each_has_a_base_url_of_its_own(start_daemon):
    """lm-eval's remote tokenizer cuts `/v1/completions` off the base URL and names no model in any request."""
    daemon = start_daemon(**{"models.1.name": "org/second", "models.1.kind": "hash", "models.1.context_length": 512})
    base_url = daemon.url + "/models/org/second/v1/completions"
    server = base_url.replace("/v1/completions", "").replace("/v1/chat/completions", "").rstrip("/").removeprefix(daemon.url)
    assert json.loads(daemon.get(f"{server}/tokenizer_info")[2])["model_max_length"] == 512
    status, _, reply = daemon.post(f"{server}/tokenize", {"prompt": "test", "add_special_tokens": False})
    assert status == 200 and reply["max_model_len"] == 512
    assert daemon.post(f"{server}/detokenize", {"tokens": reply["tokens"]})[2]["prompt"] == "test"
    body = {"prompt": [reply["tokens"]], "max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0}
    assert daemon.post(f"{server}/v1/completions", body)[2]["model"] == "org/second"
    assert daemon.post(f"{server}/v1/completions", body | {"model": "org/second"})[0] == 200
    assert daemon.post(f"{server}/v1/completions", body | {"model": "hash"})[2]["error"]["param"] == "model"
    assert daemon.get("/models/third/tokenizer_info")[0] == 404
    for refused in (daemon.post("/tokenize", {"prompt": "test"}), daemon.post("/detokenize", {"tokens": [1]})):
        assert refused[0] == 400 and "hash, org/second" in refused[2]["error"]["message"]
    assert daemon.get("/tokenizer_info")[0] == 400
    assert daemon.post("/tokenize", {"prompt": "test", "model": "hash"})[2]["max_model_len"] == 4096


def test_a_max_tokens_of_the_whole_context_is_cut_to_what_fits(daemon):
    """Generation tasks ask for the model's `max_model_len`."""
    body = {"prompt": "x" * 4000, "max_tokens": 4096, "ignore_eos": True}
    status, _, reply = daemon.post("/v1/completions", body)
    assert status == 200, reply
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"] == 4096
    assert daemon.post("/v1/completions", body | {"max_tokens": 4097})[2]["error"]["code"] == "context_length_exceeded"


def test_the_daemon_is_the_tokenizer_too(daemon):
    """`tokenizer_backend=remote`: special tokens by name, their ids and all texts over HTTP."""
    status, _, text = daemon.get("/tokenizer_info")
    info = json.loads(text)
    assert status == 200 and info["model_max_length"] == 4096

    def encode(text):
        return daemon.post("/tokenize", {"prompt": text, "add_special_tokens": False})[2]["tokens"]

    assert encode(info["eos_token"]) == [EOS] and encode(info["bos_token"]) == [256]
    assert daemon.post("/detokenize", {"tokens": encode("text ") + [EOS]})[2]["prompt"] == "text " + info["eos_token"]
