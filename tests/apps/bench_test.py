"""`paceline bench`: every bench runs, checks what it times, and says where its figures come from. No figure is judged."""
import json
import os
import pathlib
import subprocess

import pytest

PACELINE = os.environ["PACELINE_BIN"]
TINY_MODEL_TOOL = pathlib.Path(os.environ["PACELINE_BINARY_DIR"]) / "bin/tiny_model_tool"


def bench(*arguments):
    return subprocess.run([PACELINE, "bench", *map(str, arguments)], capture_output=True, text=True, timeout=120)


def report(*arguments):
    done = bench(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["bench"] == arguments[0]
    provenance = figures["provenance"]
    assert f"bench {arguments[0]}" in provenance["command"]
    assert provenance["commit"] and provenance["machine"]["cores"] >= 1
    return figures


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    subprocess.run([TINY_MODEL_TOOL, "write", path], check=True)
    return path


def test_decode_reports_tokens_per_second_with_their_spread():
    figures = report("decode", "--model", "hash", "--tokens", 16, "--batch", 3, "--repeats", 3)
    assert figures["tokens_per_second"] > 0
    assert figures["spread"]["runs"] == 3
    assert figures["spread"]["min"] <= figures["tokens_per_second"] <= figures["spread"]["max"]
    assert figures["batch"] == 3


def test_prefill_reports_tokens_per_second():
    figures = report("prefill", "--model", "hash", "--prompt-tokens", 64, "--repeats", 2)
    assert figures["tokens_per_second"] > 0 and figures["prompt_tokens"] == 64


def test_cost_compares_passes_with_each_other_and_with_the_machine(tiny_model):
    figures = report("cost", "--model", tiny_model, "--rows", "1,2,5", "--context", 8, "--repeats", 2, "--threads", 1)
    assert [p["rows"] for p in figures["passes"]] == [1, 2, 5]
    first = figures["passes"][0]
    assert first["cost"] == 1 and first["roof_cost"] == 1
    assert figures["read_gb_per_second"] > 0 and figures["gmac_per_second"] > 0
    # Work grows with the rows, the weights are read once.
    by_op = [{o["op"]: o for o in p["ops"]} for p in figures["passes"]]
    assert any(name.startswith("matmul") for name in by_op[0])
    assert set(by_op[0]) == set(by_op[2])


def test_no_setting_drafts_from_what_another_wrote(tmp_path):
    workload = tmp_path / "prompts.jsonl"
    workload.write_text("".join(json.dumps({"prompt": f"{i} apples and {i + 7} pears"}) + "\n" for i in range(4)))
    figures = report("spec", "--model", "hash", "--workload", workload, "--drafters", "suffix", "--lengths", "2,5", "--max-tokens", 32)
    arms = figures["workloads"][0]["arms"][1:]
    assert len(arms) == 2
    # The hash model repeats nothing: whoever drafts well has seen the other setting's reply to the same prompt.
    assert all(arm["acceptance_rate"] < 0.3 for arm in arms), arms


def test_serve_compares_drafters_that_give_the_same_text(tmp_path):
    workload = tmp_path / "workload.jsonl"
    workload.write_text("".join(json.dumps({"prompt": "one two three one two " * n}) + "\n" for n in (1, 2, 3, 4)))
    figures = report("serve", "--model", "hash", "--workload", workload, "--drafters", "none,ngram", "--concurrency", 2,
                     "--max-tokens", 24)
    plain, ngram = figures["drafters"]
    assert plain["drafter"] == "none" and plain["speed_up"]["median"] == 1
    assert ngram["different_texts"] == 0
    assert plain["tokens"] == ngram["tokens"] > 0
    assert ngram["speed_up"]["runs"] == 2  # groups of two


def test_spec_measures_every_drafter_length_and_workload_beside_its_prediction(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps({"prompt": f"{name} one two one two " * n}) + "\n" for n in range(1, 7)))
    figures = report("spec", "--model", "hash", "--workload", f"{tmp_path}/a.jsonl,{tmp_path}/b.jsonl", "--drafters",
                     "ngram,auto", "--lengths", "2,4", "--concurrency", "1,2", "--max-tokens", 16)
    assert [(w["workload"], w["concurrency"]) for w in figures["workloads"]] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    for workload in figures["workloads"]:
        arms = {(a["drafter"], a["draft_length"]): a for a in workload["arms"]}
        assert list(arms) == [("none", None), ("ngram", 2), ("ngram", 4), ("auto", None)]
        plain = arms["none", None]
        assert plain["predicted_speed_up"] == 1 and plain["speed_up"]["median"] == 1 and plain["acceptance_rate"] == 0
        for arm in arms.values():
            assert arm["different_texts"] == 0
            assert abs(sum(arm["time_shares"].values()) - 1) < 0.01
            assert 0 <= arm["acceptance_rate"] <= arm["alpha"] <= 1
            low, high = arm["speed_up"]["interval95"]
            assert low <= arm["speed_up"]["median"] <= high
            assert all(a >= b for a, b in zip(arm["accepted_per_position"], arm["accepted_per_position"][1:]))


def test_serve_names_the_line_it_cannot_use(tmp_path):
    workload = tmp_path / "workload.jsonl"
    workload.write_text('{"prompt": "fine"}\n{"other": 1}\n')
    done = bench("serve", "--model", "hash", "--workload", workload)
    assert done.returncode == 69
    assert f"{workload}:2" in done.stderr and '"messages" nor "prompt"' in done.stderr


def test_a_model_that_is_not_there_is_one_clear_error(tmp_path):
    for what in ("decode", "prefill", "cost"):
        done = bench(what, "--model", tmp_path / "none.gguf")
        assert done.returncode == 69 and "none.gguf" in done.stderr
