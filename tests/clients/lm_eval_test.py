"""EleutherAI's evaluation harness, with the daemon as its tokenizer: log-likelihoods, perplexity and generated answers."""
import json
import math

import pytest
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

from conftest import MODEL
from daemon import Daemon

CITIES = {"France": "Paris", "Germany": "Berlin", "Japan": "Tokyo", "Spain": "Madrid"}
TASKS = {
    "choices": """output_type: multiple_choice
doc_to_text: "The capital of {{country}} is"
doc_to_choice: "{{choices}}"
doc_to_target: "{{choices.index(city)}}"
metric_list: [{metric: acc}]
""",
    "text": """output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity}]
""",
    "answers": """output_type: generate_until
doc_to_text: "The capital of France is Paris. The capital of Italy is Rome. The capital of {{country}} is"
doc_to_target: "{{city}}"
generation_kwargs: {until: ["."], max_gen_toks: 8, do_sample: false}
filter_list: [{name: strip, filter: [{function: regex, regex_pattern: "(\\\\w+)"}, {function: take_first}]}]
metric_list: [{metric: exact_match}]
""",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The model that is evaluated is the second one: /tokenize without a model in its path would be the first one's."""
    if not MODEL.exists():
        pytest.skip(f"{MODEL} is not there")
    models = f"  - {{name: first, kind: hash, context_length: 512}}\n  - {{name: small, path: {MODEL}, context_length: 4096}}\n"
    running = Daemon(tmp_path_factory.mktemp("clients"), models=models, **{"engine.threads": 2})
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def results(served, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    rows = [{"country": country, "city": city, "choices": list(CITIES.values()), "text": f"{city} is the capital of {country}."} for country, city in CITIES.items()]
    (folder / "rows.json").write_text("\n".join(map(json.dumps, rows)))
    for name, text in TASKS.items():
        data = f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder}/rows.json}}}}\ntest_split: test\n"
        (folder / f"{name}.yaml").write_text(data + text)
    return simple_evaluate(
        model="local-completions",
        model_args={
            "model": "small",
            "base_url": f"{served.url}/models/small/v1/completions",
            "tokenizer_backend": "remote",
            "tokenized_requests": True,
            "num_concurrent": 2,
            "max_length": 1024,
            "max_retries": 1,
        },
        tasks=list(TASKS),
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        batch_size=1,
        bootstrap_iters=0,
        log_samples=True,
    )


def test_it_chooses_by_log_likelihoods(results):
    assert results["results"]["choices"]["acc,none"] >= 0.5
    for sample in results["samples"]["choices"]:
        assert all(score < 0 for score, _ in sample["filtered_resps"])


def test_perplexity_is_that_of_words_in_order(results):
    assert 1 < results["results"]["text"]["word_perplexity,none"] < 1000


def test_it_generates_what_is_asked_for(results):
    assert results["results"]["answers"]["exact_match,strip"] >= 0.5


def test_the_scores_are_those_of_the_api(results, served):
    """The sum of log-probabilities of one continuation, asked for by hand."""
    sample = next(sample for sample in results["samples"]["choices"] if sample["doc"]["country"] == "France")
    context = served.post("/tokenize", {"model": "small", "prompt": "The capital of France is", "add_special_tokens": False})[2]["tokens"]
    body = {"model": "small", "prompt": "The capital of France is Paris", "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0}
    scores = served.post("/v1/completions", body)[2]["choices"][0]["logprobs"]["token_logprobs"]
    mine = sum(scores[len(context) :])
    assert math.isclose(mine, sample["filtered_resps"][0][0], abs_tol=1e-3)
