"""/metrics read by other people's parsers."""
import json
import re
import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.sync.client import connect


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


def naming_faults(text):
    """The checks of `promtool check metrics`, for machines without it."""
    faults = []
    for family in text_string_to_metric_families(text):
        name = family.name
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            faults.append(f"{name}: letters, digits and _ only")
        if not family.documentation:
            faults.append(f"{name}: no help")
        if family.type == "unknown":
            faults.append(f"{name}: no type")
        if re.search(r"(^|_)(milli|micro|nano)?(ms|us|ns|minutes|hours|kilobytes|megabytes|percent)(_|$)|milliseconds", name):
            faults.append(f"{name}: not a base unit")
        if family.type != "counter" and name.endswith("_total"):
            faults.append(f"{name}: only counters end in _total")
        if family.type == "counter" and not all(sample.name.endswith("_total") for sample in family.samples):
            faults.append(f"{name}: a counter ends in _total")
        if name.endswith(("_count", "_sum", "_bucket")) or any(kind in name for kind in ("_counter", "_gauge", "_histogram")):
            faults.append(f"{name}: names a type")
        for sample in family.samples:
            if sample.labels.get("le") and family.type != "histogram":
                faults.append(f"{name}: le is a histogram's label")
            faults += [f"{name}: label {label}" for label in sample.labels if not re.fullmatch(r"[a-z][a-z0-9_]*", label)]
    return faults


def test_our_own_names_follow_the_naming_rules(start_daemon):
    daemon = start_daemon(**{"metrics.vllm_names": "false"})
    daemon.post("/v1/completions", {"prompt": "abcabcabc", "max_tokens": 20, "ignore_eos": True})
    assert naming_faults(daemon.get("/metrics")[2]) == []
    assert len(naming_faults("# TYPE vllm:time_ms gauge\nvllm:time_ms 1\n# TYPE done counter\ndone 1\n")) >= 3


# Families that stay 0 below, and why they do.
SEEN_ELSEWHERE = {
    "paceline_connections_active": "always at least the one that asks",
    "paceline_stalled_closes": "websocket_test.py",
    "paceline_flow_pauses": "websocket_test.py",
    "paceline_connections_refused": "attack_test.py",
    "paceline_connections_evicted": "the same",
    "paceline_bodies_given_up": "the same",
    "paceline_outputs_given_up": "costly_requests_test.py",
    "paceline_kept_bytes": "websocket_test.py",
    "paceline_kept_evictions": "the same",
    "paceline_model_figures_late": "a scheduler has to stall: engine_test.cpp",
    "paceline_edge_rejections": "service_test.cpp",
    "paceline_log_lines_dropped": "logging_test.py",
    "paceline_preemptions": "actors/scheduling_test.cpp",
    "vllm:num_preemptions": "the same",
    "paceline_device_losses": "a device has to hang: actors/watchdog_test.cpp",
    "paceline_evictions": "kv/pool_manager_test.cpp",
    "paceline_mailbox_depth": "actors/scheduling_test.cpp",
    "paceline_actor_lost": "an actor has to fail for good: engine/losses_test.cpp",
    "paceline_actor_restarts": "an actor has to fail: actors/recovery_test.cpp",
    "paceline_stale_drafts": "a guard: in order of enqueueing no draft is late",
    "paceline_draft_busy_seconds": "bad_input_test.py, where a drafter has a model of its own",
    "paceline_overlap_seconds": "wants two partitions: actors/overlap_test.cpp",
    "paceline_drafts_foreseen": "wants two partitions: engine/overlap_test.cpp, actors/overlap_test.cpp",
    "paceline_drafts_ready": "the same",
    "paceline_draft_failures": "a drafter has to fail: actors/losses_test.cpp",
}


def test_no_family_stays_at_zero(start_daemon, tmp_path):
    """Every figure must be updated by some code."""
    keys = tmp_path / "keys"
    keys.write_text("key\n")
    daemon = start_daemon(
        sections=f"server: {{api_keys_file: {keys}}}\n",
        **{
            "models.0.hash.memory": 1, "models.0.hash.sharpness": 30, "models.0.hash.pass_work": 300000, "models.0.context_length": 65536,
            "models.0.max_running": 1, "models.0.max_waiting": 1,
        },
    )
    key = {"Authorization": "Bearer key"}
    moved = set()

    def look():
        families = list(text_string_to_metric_families(daemon.get("/metrics")[2]))
        moved.update(family.name for family in families if any(sample.value for sample in family.samples))
        return {family.name for family in families}

    # So long that it still runs when a busy machine has looked at the metrics.
    long = {"prompt": "abcabcabc" * 8, "max_tokens": 60000, "ignore_eos": True, "stream": True}
    raw = [daemon.connect() for _ in range(2)]
    for i, connection in enumerate(raw):
        body = json.dumps(long).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        daemon.wait_for(lambda: daemon.metric("paceline_open_requests") == i + 1)
    daemon.wait_for(lambda: daemon.metric("paceline_requests_waiting") == 1)
    assert daemon.post("/v1/completions", long, key)[0] == 429
    look()
    with connect(daemon.url.replace("http", "ws") + "/v1/responses", additional_headers=key, compression=None):
        look()
    with daemon.connect() as watcher:
        watcher.sendall(b"GET /paceline/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        watcher.recv(4096)
        look()
    for connection in raw:
        connection.close()
    daemon.wait_until_idle()
    for memory_hit in range(2):
        body = {"prompt": "abcabcabc" * 8, "max_tokens": 40, "seed": memory_hit}
        assert daemon.post("/v1/completions", body, key)[0] == 200
    assert daemon.post("/v1/completions", body | {"max_tokens": 500, "temperature": 0, "ignore_eos": True}, key)[0] == 200
    assert daemon.get("/v1/models")[0] == 401
    daemon.reload()
    daemon.configure("nonsense: 1\n")
    daemon.reload()
    daemon.wait_until_idle()
    unfed = sorted(look() - moved - SEEN_ELSEWHERE.keys())
    assert unfed == []
