"""NVIDIA's aiperf: its counts agree with the daemon's, and it prints figures of speculation."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import MODEL
from tokenizer_of import write_tokenizer

PROMPT = "Repeat this list three times: apple, banana, cherry, apple, banana, cherry, apple, banana, cherry."
NUM_REQUESTS = 6


@pytest.fixture(scope="module", params=["chat", "completions"])
def run(request, served, tmp_path_factory):
    """Output and artifacts of one run."""
    folder = tmp_path_factory.mktemp("aiperf")
    write_tokenizer(MODEL, folder / "tokenizer")
    (folder / "prompts.jsonl").write_text("\n".join(json.dumps({"text": PROMPT}) for _ in range(NUM_REQUESTS)))
    command = [pathlib.Path(sys.executable).with_name("aiperf"), "profile", "--model", "small", "--url", served.url, "--endpoint-type", request.param]
    command += ["--streaming", "--tokenizer", folder / "tokenizer", "--input-file", folder / "prompts.jsonl", "--custom-dataset-type", "single_turn"]
    command += ["--request-count", str(NUM_REQUESTS), "--concurrency", "2", "--extra-inputs", "max_tokens:40", "--extra-inputs", "ignore_eos:true"]
    command += ["--extra-inputs", "temperature:0", "--use-server-token-count", "--server-metrics", served.url + "/metrics", "--ui", "none", "--artifact-dir", folder / "out"]
    environment = {key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500, env=environment | {"COLUMNS": "160"})
    assert done.returncode == 0, done.stdout
    return done.stdout, json.loads((folder / "out/profile_export_aiperf.json").read_text())


def test_it_counts_what_was_asked_for(run):
    _, figures = run
    assert figures["request_count"]["avg"] == NUM_REQUESTS and not figures.get("error_summary")
    assert figures["output_sequence_length"]["avg"] == 40
    assert figures["time_to_first_token"]["avg"] > 0 and figures["inter_token_latency"]["avg"] > 0


def test_it_prints_what_was_drafted_and_accepted(run):
    output, figures = run
    assert "Acceptance Length" in output and "Draft Acceptance Rate" in output
    histogram = {int(accepted): steps for accepted, steps in figures["pooled_spec_decode_acceptance_histogram"].items()}
    assert figures["total_accepted_draft_tokens"]["avg"] == sum(accepted * steps for accepted, steps in histogram.items()) > 0
    assert figures["total_spec_decode_steps"]["avg"] == sum(histogram.values())
    assert figures["total_draft_tokens"]["avg"] >= figures["total_accepted_draft_tokens"]["avg"]
