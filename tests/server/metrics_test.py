"""/metrics read by other people's parsers."""
import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families


def test_the_reference_parser_reads_it(daemon):
    assert daemon.post("/v1/completions", {"prompt": "abcabcabc", "max_tokens": 20, "ignore_eos": True})[0] == 200
    status, headers, text = daemon.get("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for name in (
        "paceline_time_to_first_token_seconds",
        "paceline_inter_token_latency_seconds",
        "paceline_request_duration_seconds",
        "paceline_request_queue_seconds",
        "paceline_kv_blocks",
        "vllm:spec_decode_num_drafts",
        "process_resident_memory_bytes",
    ):
        assert name in families, name
    for family in families.values():
        if family.type != "histogram":
            continue
        buckets = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
        assert buckets == sorted(buckets), family.name


def test_counters_follow_a_request(daemon):
    daemon.wait_until_idle()
    before = {name: daemon.metric(name) for name in ("paceline_generation_tokens_total", "paceline_request_duration_seconds_count")}
    daemon.post("/v1/completions", {"prompt": "x", "max_tokens": 7, "ignore_eos": True})
    daemon.wait_until_idle()
    assert daemon.metric("paceline_generation_tokens_total") == before["paceline_generation_tokens_total"] + 7
    assert daemon.metric("paceline_request_duration_seconds_count") == before["paceline_request_duration_seconds_count"] + 1


def test_our_own_names_lint_clean(start_daemon):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    text = start_daemon(**{"metrics.vllm_names": "false"}).get("/metrics")[2]
    lint = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
    assert lint.returncode == 0, lint.stdout + lint.stderr
