"""guidellm: a run without failed requests, whose tokens are those that were asked for."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import MODEL
from tokenizer_of import write_tokenizer


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses"])
def test_a_run(served, tmp_path, path):
    write_tokenizer(MODEL, tmp_path / "tokenizer")
    command = [pathlib.Path(sys.executable).with_name("guidellm"), "run", "--disable-console-interactive"]
    command += ["--backend", f"kind=openai_http,target={served.url},model=small,request_format={path}"]
    command += ["--profile", "kind=concurrent,streams=[2]", "--constraint", "kind=max_requests,count=6"]
    command += ["--tokenizer", f"kind=huggingface_auto,model={tmp_path / 'tokenizer'}"]
    command += ["--data", "kind=synthetic_text,prompt_tokens=40,output_tokens=20", "--output", f"kind=json,path={tmp_path / 'out.json'}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500, cwd=tmp_path, env=os.environ | {"COLUMNS": "200"})
    assert done.returncode == 0, done.stdout
    print(done.stdout)
    report = json.loads((tmp_path / "out.json").read_text())
    requests = report["benchmarks"][0]["requests"]
    assert len(requests["successful"]) == 6 and not requests["errored"], done.stdout
    if path != "/v1/responses":  # its reader of responses drops the member `metrics`
        metrics = [one["response_metrics"] for one in requests["successful"]]
        figures = [one["speculative_decoding"] for one in metrics if "speculative_decoding" in one]  # absent where no draft was verified
        assert figures and all(one["mean_acceptance_length"] >= 1 for one in figures), metrics
