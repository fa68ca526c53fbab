"""Prometheus' own lint of /metrics."""
import shutil
import subprocess

import pytest

from daemon import Daemon

pytestmark = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")


def lint(daemon):
    """Complaints about the metrics after some requests."""
    body = {"prompt": "abcabcabc", "max_tokens": 20, "ignore_eos": True}
    assert daemon.post("/v1/completions", body)[0] == 200 and daemon.post("/v1/completions", body | {"temperature": 9})[0] == 400
    text = daemon.get("/metrics")[2]
    done = subprocess.run(["promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    complaints = done.stdout.splitlines()
    assert done.returncode == (3 if complaints else 0), done.stdout
    return text, complaints


def test_our_metrics_have_no_findings(tmp_path):
    daemon = Daemon(tmp_path, **{"metrics.vllm_names": "false"})
    text, complaints = lint(daemon)
    assert daemon.stop() == 0
    assert complaints == [] and "paceline_http_replies_total" in text


def test_of_vllms_names_only_the_colon_is_found(tmp_path):
    """And what its names are without a base unit: they are not ours to change."""
    daemon = Daemon(tmp_path, **{"metrics.vllm_names": "true"})
    _, complaints = lint(daemon)
    assert daemon.stop() == 0
    assert complaints and all(line.startswith("vllm:") for line in complaints), complaints
