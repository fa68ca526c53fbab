"""The reference client against the daemon, over HTTP and over WebSocket."""
import json
import time

import openai
import pytest
from websockets.sync.client import connect


@pytest.fixture
def client(daemon):
    with openai.OpenAI(base_url=daemon.url + "/v1", api_key="none", max_retries=0) as one:
        yield one


MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]


def test_lists_models(client):
    models = client.models.list().data
    assert [model.id for model in models] == ["hash"]
    assert abs(time.time() - models[0].created) < 3600, "when it was loaded"
    assert client.models.retrieve("other-name").id == "hash"


def test_chat_whole_and_streamed_say_the_same(client):
    arguments = dict(model="hash", messages=MESSAGES, max_tokens=40, seed=7, temperature=1)
    whole = client.chat.completions.create(**arguments)
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert whole.usage.prompt_tokens > 0
    assert whole.usage.completion_tokens <= 40
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    chunks = list(client.chat.completions.create(**arguments, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({c.id for c in chunks}) == 1
    assert chunks[-1].model_extra["metrics"]["time_to_first_token_ms"] > 0


def test_speculation_changes_no_token(client):
    def text(drafter, length=5):
        speculation = {"drafter": drafter, "draft_length": length}
        reply = client.completions.create(
            model="hash", prompt="abcabcabcabc", max_tokens=60, seed=3, extra_body={"speculation": speculation, "ignore_eos": True}
        )
        return reply.choices[0].text

    plain = text("none")
    for length in (1, 3, 8):
        assert text("lookup", length) == plain


def test_the_models_own_rule_holds_where_the_request_names_none(start_daemon):
    daemon = start_daemon(**{"models.0.default_rule": "rejection", "models.0.hash.memory": 1, "models.0.hash.sharpness": 30})

    # Under rejection a text depends on what is drafted, and what `auto` drafts depends on measured times.
    def text(drafter="lookup", **rule):
        speculation = {"drafter": drafter, "draft_length": 5} | rule
        body = {"prompt": "abcabcabc", "max_tokens": 120, "seed": 3, "temperature": 0.2, "ignore_eos": True, "speculation": speculation}
        return daemon.post("/v1/completions", body)[2]["choices"][0]["text"]

    assert daemon.metric("paceline_accepted_tokens_total") == 0
    assert text() == text(rule="rejection") != text(rule="coupled") == text(drafter="none", rule="coupled")
    assert daemon.metric("paceline_accepted_tokens_total") > 0, "nothing was verified"


def test_several_choices_differ_and_repeat_by_seed(client):
    def texts():
        reply = client.chat.completions.create(model="hash", messages=MESSAGES, max_tokens=20, n=3, seed=11)
        assert [c.index for c in reply.choices] == [0, 1, 2]
        return [c.message.content for c in reply.choices]

    first = texts()
    assert len(set(first)) > 1
    assert texts() == first


def test_chat_logprobs(client):
    reply = client.chat.completions.create(
        model="hash", messages=MESSAGES, max_tokens=5, logprobs=True, top_logprobs=3, temperature=0, extra_body={"ignore_eos": True}
    )
    content = reply.choices[0].logprobs.content
    assert len(content) == 5
    for entry in content:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob == pytest.approx(entry.top_logprobs[0].logprob)
        assert entry.logprob <= 0


def test_echo_with_logprobs_scores_a_text_as_evaluation_tools_need_it(client):
    """The request of lm-eval's local-completions: token ids, echo, logprobs, one greedy token."""
    prompt = list(b"The quick brown fox")
    reply = client.completions.create(model="hash", prompt=prompt, max_tokens=1, temperature=0, logprobs=1, echo=True, seed=1234)
    scores = reply.choices[0].logprobs
    count = len(prompt) + reply.usage.completion_tokens
    assert len(scores.tokens) == len(scores.token_logprobs) == len(scores.top_logprobs) == len(scores.text_offset) == count
    assert scores.token_logprobs[0] is None and all(value <= 0 for value in scores.token_logprobs[1:])
    for token, logprob, top in list(zip(scores.tokens, scores.token_logprobs, scores.top_logprobs))[1:]:
        assert top[token] == pytest.approx(logprob)
        assert max(top.values()) >= logprob
    assert reply.choices[0].text.startswith("The quick brown fox")

    # Teacher forcing agrees with itself: a longer echo gives the same scores for the same prefix.
    longer = client.completions.create(model="hash", prompt=prompt + [33], max_tokens=1, temperature=0, logprobs=1, echo=True)
    assert longer.choices[0].logprobs.token_logprobs[1 : len(prompt)] == pytest.approx(scores.token_logprobs[1 : len(prompt)])


def test_batches_of_prompts(client):
    reply = client.completions.create(model="hash", prompt=["one", "two"], max_tokens=4, n=2, seed=1)
    assert [c.index for c in reply.choices] == [0, 1, 2, 3]
    alone = client.completions.create(model="hash", prompt="two", max_tokens=4, n=2, seed=1)
    assert [c.text for c in reply.choices[2:]] == [c.text for c in alone.choices]


def test_errors_arrive_as_the_clients_own(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="hash", messages=MESSAGES, temperature=9)
    assert refused.value.param == "temperature" and refused.value.code == "invalid_value"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4", messages=MESSAGES)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as too_long:
        client.completions.create(model="hash", prompt="x" * 5000)
    assert too_long.value.code == "context_length_exceeded"
    assert "this model's maximum context length is 4096 tokens" in too_long.value.message, "the words that LiteLLM looks for"
    with pytest.raises(openai.BadRequestError) as unsupported:
        client.chat.completions.create(model="hash", messages=MESSAGES, extra_body={"mirostat": 1})
    assert unsupported.value.code == "unsupported_parameter"


def test_ignored_fields_are_listed(client):
    reply = client.completions.with_raw_response.create(model="hash", prompt="x", max_tokens=1, extra_body={"temprature": 1})
    assert reply.headers["x-paceline-ignored-fields"] == "temprature"
    assert reply.headers["x-request-id"]


def test_tools_are_refused_unless_none_is_chosen(client, daemon):
    """Calls are not parsed: the client would take the JSON text of one for an answer."""
    tools = [{"type": "function", "function": {"name": "look_up_weather", "parameters": {"type": "object", "properties": {}}}}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="hash", messages=MESSAGES, tools=tools, max_tokens=2)
    assert refused.value.param == "tools" and refused.value.code == "unsupported_parameter"
    assert client.chat.completions.create(model="hash", messages=MESSAGES, tools=tools, tool_choice="none", max_tokens=2).choices
    with_tools = daemon.post("/tokenize", {"messages": MESSAGES, "tools": tools})[2]["count"]
    assert with_tools > daemon.post("/tokenize", {"messages": MESSAGES})[2]["count"], "they reach the template"


def test_responses_whole_and_streamed_say_the_same(client):
    arguments = dict(model="hash", input="hello", instructions="be brief", max_output_tokens=30, extra_body={"seed": 5})
    whole = client.responses.create(**arguments)
    assert whole.status in ("completed", "incomplete")
    events = list(client.responses.create(**arguments, stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text


def test_responses_over_websocket(client):
    with client.responses.connect() as connection:
        connection.response.create(model="hash", input="hello", max_output_tokens=20)
        events = []
        for event in connection:
            events.append(event)
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                break
        final = events[-1].response
        assert final.output_text == "".join(e.delta for e in events if e.type == "response.output_text.delta")
        assert final.metrics["tokens_per_second"] >= 0

        connection.response.create(model="hash", input="and now?", previous_response_id=final.id, max_output_tokens=3)
        for event in connection:
            if event.type in ("response.completed", "response.incomplete"):
                assert event.response.previous_response_id == final.id
                assert event.response.usage.input_tokens > final.usage.input_tokens
                break


def test_websocket_errors_reach_the_client(client):
    with client.responses.connect() as connection:
        connection.response.create(model="hash", input="hello", previous_response_id="resp_unknown")
        event = connection.recv()
        assert event.type == "error" and event.error.code == "previous_response_not_found"


def test_speculation_figures_follow_the_rules_that_bench_tools_check(start_daemon):
    """A model whose next token depends on the last one only soon repeats itself: n-grams are accepted."""
    daemon = start_daemon(**{"models.0.hash.memory": 1})
    body = {"prompt": "x", "max_tokens": 200, "temperature": 0, "ignore_eos": True, "speculation": {"draft_length": 4}}
    reply = daemon.post("/v1/completions", body)[2]
    figures = reply["metrics"]["speculative_decoding"]
    histogram = figures["acceptance_histogram"]
    assert len(histogram) == figures["num_spec_tokens"] + 1
    assert sum(histogram) == figures["num_spec_steps"] > 0
    assert sum(j * count for j, count in enumerate(histogram)) == figures["num_accepted_draft_tokens"] > 0
    assert figures["draft_acceptance_rate"] == figures["num_accepted_draft_tokens"] / figures["num_draft_tokens"]
    assert figures["mean_acceptance_length"] == 1 + figures["num_accepted_draft_tokens"] / figures["num_spec_steps"]
    assert reply["timings"]["draft_n"] == figures["num_draft_tokens"]
    assert "accepted_prediction_tokens" not in reply["usage"]["completion_tokens_details"], "it sent no prediction"
    for name, key in (("drafts", "num_spec_steps"), ("draft_tokens", "num_draft_tokens"), ("accepted_tokens", "num_accepted_draft_tokens")):
        daemon.wait_for(lambda: daemon.metric(f"vllm:spec_decode_num_{name}_total") == figures[key])
    plain = daemon.post("/v1/completions", body | {"speculation": {"drafter": "none"}})[2]
    assert plain["choices"][0]["text"] == reply["choices"][0]["text"]
    assert "speculative_decoding" not in plain["metrics"]


RULES = {
    "coupled": "tokens",
    "rejection": "distribution",
    "block": "distribution",
    "lenient": "lossy",
    "typical": "lossy",
    "skip_sample_adjustment": "lossy",
}


def test_replies_name_what_their_rule_guarantees(start_daemon):
    daemon = start_daemon(**{"models.0.hash.memory": 1, "models.0.hash.sharpness": 30})
    for rule, guarantee in RULES.items():
        speculation = {"speculation": {"rule": rule, "draft_length": 4}, "ignore_eos": True, "temperature": 0.2, "seed": 3}
        in_usage = None if guarantee == "tokens" else guarantee
        whole = daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 120} | speculation)[2]
        assert whole["metrics"]["speculative_decoding"]["guarantee"] == guarantee
        assert whole["usage"]["completion_tokens_details"].get("guarantee") == in_usage
        several = daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 9, "n": 2} | speculation)[2]
        assert several["usage"]["completion_tokens_details"].get("guarantee") == in_usage
        client = openai.OpenAI(base_url=daemon.url + "/v1", api_key="none")
        chunks = list(
            client.chat.completions.create(
                model="hash",
                messages=[{"role": "user", "content": "x"}],
                max_tokens=120,
                stream=True,
                stream_options={"include_usage": True},
                extra_body=speculation,
            )
        )
        assert chunks[-1].model_extra["metrics"]["speculative_decoding"]["guarantee"] == guarantee
        with connect(daemon.url.replace("http", "ws") + "/v1/responses", compression=None) as ws:
            ws.send(json.dumps({"type": "response.create", "input": "x", "max_output_tokens": 120} | speculation))
            for text in ws:
                event = json.loads(text)
                if event["type"] in ("response.completed", "response.incomplete", "response.failed"):
                    break
        assert event["response"]["metrics"]["speculative_decoding"]["guarantee"] == guarantee
        assert event["response"]["usage"]["output_tokens_details"].get("guarantee") == in_usage


def test_a_rules_parameter_without_the_rule_is_refused(daemon):
    for parameter, rule in (("lenience", "typical"), ("epsilon", "lenient"), ("delta", None), ("lenience", None)):
        speculation = {parameter: 0.5} | ({"rule": rule} if rule else {})
        status, _, reply = daemon.post("/v1/completions", {"prompt": "x", "speculation": speculation})
        assert status == 400 and reply["error"]["param"] == f"speculation.{parameter}"


def test_predicted_outputs_are_verified_and_counted(client):
    """The client's own draft: right, nearly right and wrong ones give the same text; usage says what they were worth."""
    arguments = dict(model="hash", messages=MESSAGES, max_tokens=60, seed=5, temperature=1, extra_body={"ignore_eos": True})
    plain = client.chat.completions.create(**arguments | {"extra_body": {"ignore_eos": True, "speculation": {"drafter": "none"}, "return_token_ids": True}})
    assert plain.usage.completion_tokens_details.accepted_prediction_tokens is None
    text, tokens = plain.choices[0].message.content, plain.choices[0].token_ids

    def predicted(content, **speculation):
        extra = {"ignore_eos": True} | ({"speculation": speculation} if speculation else {})
        reply = client.chat.completions.create(**arguments | {"extra_body": extra}, prediction={"type": "content", "content": content})
        assert reply.choices[0].message.content == text
        details = reply.usage.completion_tokens_details
        return details.accepted_prediction_tokens, details.rejected_prediction_tokens

    accepted, rejected = predicted(tokens)
    assert accepted > 50 and rejected == 0
    accepted, rejected = predicted(tokens[:20] + [65] + tokens[21:])
    assert accepted > 35 and 0 < rejected < 20
    accepted, rejected = predicted(tokens[10:])
    assert accepted > 25, "found its place"
    accepted, rejected = predicted("nothing of this")
    assert accepted <= 2
    assert predicted("nothing of this", drafter="none") == (0, 0), "a request that names its drafter gets that one"


def test_predictions_as_text_and_as_parts_reach_the_drafter(start_daemon):
    """Tokens of this model are bytes as long as it writes none beyond ASCII: then text is enough."""
    daemon = start_daemon(**{"models.0.hash.memory": 1, "models.0.hash.sharpness": 30})
    body = {"prompt": "abc", "max_tokens": 40, "temperature": 0, "ignore_eos": True, "logit_bias": {str(i): -100 for i in range(128, 300)}}
    plain = daemon.post("/v1/completions", body | {"speculation": {"drafter": "none"}})[2]
    text = plain["choices"][0]["text"]
    half = len(text) // 2
    for content in (text, [{"type": "text", "text": text[:half]}, {"type": "text", "text": text[half:]}]):
        prediction = {"prediction": {"type": "content", "content": content}}
        reply = daemon.post("/v1/completions", body | prediction)[2]
        assert reply["choices"][0]["text"] == text
        assert reply["usage"]["completion_tokens_details"]["accepted_prediction_tokens"] > 25
        response = {"input": "abc", "max_output_tokens": 40} | {key: body[key] for key in ("temperature", "ignore_eos", "logit_bias")}
        plain_response = daemon.post("/v1/responses", response)[2]
        answer = plain_response["output"][0]["content"][0]["text"]
        reply = daemon.post("/v1/responses", response | {"prediction": {"type": "content", "content": answer}})[2]
        assert reply["output"][0]["content"][0]["text"] == answer
        assert reply["usage"]["output_tokens_details"]["accepted_prediction_tokens"] > 25
    assert daemon.metric("paceline_accepted_tokens_total", drafter="prediction") > 100
