"""`paceline run`: the flags that choose how drafts are verified, what the report says of it, and what a terminal sees."""
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import threading

import numpy
import pytest
from safetensors.numpy import save_file

PACELINE = os.environ["PACELINE_BIN"]
TINY_MODEL_TOOL = pathlib.Path(os.environ["PACELINE_BINARY_DIR"]) / "bin" / "tiny_model_tool"
HASH = ("--model", "hash", "--prompt", "abcabcabc", "--max-tokens", "60", "--ignore-eos", "--temperature", "0.3")


def run(*arguments):
    return subprocess.run([PACELINE, "run", *HASH, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "flags, guarantee",
    [
        ((), "tokens"),
        (("--rule", "block"), "distribution"),
        (("--rule", "lenient", "--lenience", "0.25"), "lossy"),
        (("--rule", "typical", "--epsilon", "0.5", "--delta", "1"), "lossy"),
    ],
)
def test_the_report_names_rule_and_guarantee(flags, guarantee):
    done = run("--json", *flags)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["speculation"]
    assert figures["rule"] == (flags[1] if flags else "coupled")
    assert figures["guarantee"] == guarantee


COMMANDS = [("serve",), ("run",), ("chat",), ("inspect",), *(("bench", b) for b in ("decode", "prefill", "cost", "serve", "spec"))]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_text(command):
    """Enumerators of one byte were printed as control characters."""
    done = subprocess.run([PACELINE, *command, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Options:" in done.stdout
    assert all(c.isprintable() or c == "\n" for c in done.stdout)


def test_a_wrong_choice_names_the_right_ones():
    done = run("--kv-dtype", "f17")
    assert done.returncode == 2 and "f17" in done.stderr and "{f16,f32,bf16,q8}" in done.stderr
    assert run("--kv-dtype", "q8").returncode == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("rnu",), "unknown command rnu; did you mean run?"),
        (("bench", "spce"), "unknown command spce; did you mean spec?"),
        (("xyzzy",), "unknown command xyzzy"),
        (("run", "--modle", "hash", "--prompt", "x"), "unknown flag --modle; did you mean --model?"),
        (("run", "--modle=hash", "--prompt", "x"), "unknown flag --modle=hash; did you mean --model?"),
        (("serve", "--prot", "1"), "unknown flag --prot; did you mean --port?"),
        (("run", "--api-key", "x", "--prompt", "x"), "unknown flag --api-key; it belongs to serve and top"),
        (("chat", "--port=1"), "unknown flag --port=1; it belongs to serve"),
        (("serve", "model.gguf"), "unknown argument model.gguf; the model is named by --model"),
        (("run", "--model", "hash", "Why?"), "unknown argument Why?; the prompt is given by --prompt"),
        (("run", "--model", "hash", "--prompt", "x", "y"), "unknown argument y"),
        (("inspect", "one", "two"), "unknown argument two"),
        (("--verison",), "unknown flag --verison; did you mean --version?"),
        (("serve", "--hlep"), "unknown flag --hlep; did you mean --help?"),
        (("serve", "--keep", "1"), "unknown flag --keep"),
        (("run", "--model", "hash", "--prompt", "x", "--temp", "0.7"), "unknown flag --temp; here it is --temperature"),
        (("run", "--model", "hash", "--prompt", "x", "-ngl", "99"), "unknown flag -ngl; here it is --device"),
        (("run", "-md", "small.gguf", "--prompt", "x"), "unknown flag -md; here it is --draft-model"),
        (("serve", "-np", "4"), "unknown flag -np; here it is --set models.0.max_running=N"),
        (("serve", "--max-model-len=4096"), "unknown flag --max-model-len=4096; here it is --ctx-size"),
        (("serve", "--served-model-name", "x"), "unknown flag --served-model-name; here it is --alias"),
    ],
)
def test_a_mistyped_word_is_named(arguments, message):
    done = subprocess.run([PACELINE, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines()[0] == "paceline: " + message


def test_a_prompt_may_look_like_a_flag():
    done = subprocess.run([PACELINE, "run", "--model", "hash", "--prompt", "-md", "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command, shown",
    [
        ("run", ["--max-tokens UINT=128", "--temperature FLOAT=0", "--seed INT=0", "--device TEXT=auto", "--rule TEXT:", "=coupled"]),
        ("chat", ["--max-tokens UINT=512", "--kv-dtype ENUM:{f16,f32,bf16,q8}=f16"]),
        ("top", ["url TEXT=http://127.0.0.1:8080"]),
    ],
)
def test_help_shows_defaults(command, shown):
    told = subprocess.run([PACELINE, command, "--help"], capture_output=True, text=True, timeout=60).stdout
    assert all(part in told for part in shown), told
    assert "=[]" not in told


def test_a_cut_output_says_so():
    cut = run()
    assert "[cut at 60 tokens; -n allows more]" in cut.stderr and "cut" not in cut.stdout
    assert "[cut at 60 tokens; -n allows more]" in run("--trace").stderr
    assert "cut" not in run("--json").stderr, "the report has the reason"
    assert "cut" not in run("--stop", json.loads(run("--json").stdout)["text"][2:4]).stderr


def test_an_output_ends_where_the_context_does():
    cut = run("--ctx-size", "64")
    assert cut.returncode == 0 and "where the context ends: use a shorter prompt, or a larger --ctx-size]" in cut.stderr
    report = json.loads(run("--ctx-size", "64", "--json").stdout)
    assert len(report["prompt_tokens"]) + len(report["tokens"]) == 64 and report["finish_reason"] == "length"


def test_a_prompt_without_room_for_an_output_is_an_error_with_advice():
    done = subprocess.run([PACELINE, "run", "--model", "hash", "--prompt", "abc" * 40, "--ctx-size", "64"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    assert "leave no room in the context of 64: use a shorter prompt, or a larger --ctx-size" in done.stderr


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    subprocess.run([TINY_MODEL_TOOL, "write", path], check=True, capture_output=True)
    return path


def speculation(model, *arguments):
    """What the report of a run with the model says of speculation."""
    command = [PACELINE, "run", "--model", model, "--raw", "--prompt", "ab", "--max-tokens", "24", "--ignore-eos", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["speculation"]


def test_a_drafter_that_is_named_is_used_beside_a_drafting_model(tiny_model):
    drafted = speculation(tiny_model, "--draft-model", tiny_model)
    assert drafted["drafter"] == "model" and drafted["num_draft_tokens"] > 0
    plain = speculation(tiny_model, "--draft-model", tiny_model, "--drafter", "none")
    assert plain["drafter"] == "none" and plain["num_draft_tokens"] == 0
    assert speculation(tiny_model, "--draft-model", tiny_model, "--drafter", "ngram")["drafter"] == "ngram"
    assert speculation(tiny_model)["drafter"] == "auto"


def test_the_report_names_the_drafter_of_a_head(tiny_model, tmp_path):
    """A Medusa head of one level."""
    shown = subprocess.run([PACELINE, "inspect", tiny_model, "--json"], capture_output=True, text=True, timeout=60)
    hidden = json.loads(shown.stdout)["config"]["hidden_size"]
    save_file({"blocks.0.layers.0.weight": numpy.zeros((hidden, hidden), numpy.float16),
               "lm_heads.0.weight": numpy.zeros((8, hidden), numpy.float16), "token_map": numpy.arange(8)}, tmp_path / "model.safetensors")
    drafted = speculation(tiny_model, "--draft-head", tmp_path)
    assert drafted["drafter"] == "medusa" and drafted["num_draft_tokens"] > 0
    assert speculation(tiny_model, "--draft-head", tmp_path, "--drafter", "none")["num_draft_tokens"] == 0


def test_a_random_seed_is_told():
    def drawn():
        done = run("--seed", "-1")
        assert done.returncode == 0, done.stderr
        return done.stdout, re.search(r"\[seed (\d+);", done.stderr)[1]

    text, seed = drawn()
    assert run("--seed", seed).stdout == text
    assert drawn()[1] != seed
    for wrong in ("-2", "18446744073709551616", "7x", ""):
        refused = run("--seed", wrong)
        assert refused.returncode == 2 and "--seed" in refused.stderr and "or -1" in refused.stderr
    assert run("--seed", "18446744073709551615").returncode == 0


def seen_at_a_terminal(*arguments):
    master, slave = pty.openpty()
    process = subprocess.Popen([PACELINE, "run", *arguments], stdout=slave, stderr=subprocess.DEVNULL)
    os.close(slave)
    seen = b""
    try:
        while more := os.read(master, 65536):
            seen += more
    except OSError:
        pass  # the other end is closed
    os.close(master)
    assert process.wait(timeout=60) == 0
    return seen.decode(errors="strict")


def test_a_terminal_gets_no_control_characters():
    controls = re.compile(r"[^\n\r\t\x20-\x7e\xa0-\U0010ffff]")
    arguments = ("--model", "hash", "--prompt", "abc", "--max-tokens", "2000", "--ignore-eos", "--temperature", "1")
    piped = subprocess.run([PACELINE, "run", *arguments], capture_output=True, text=True, timeout=60)
    assert controls.search(piped.stdout), "a pipe gets the text as it is"
    shown = seen_at_a_terminal(*arguments)
    assert not controls.search(shown) and "\ufffd" in shown
    assert not controls.search(seen_at_a_terminal(*arguments, "--json"))


@pytest.mark.parametrize("arguments, missing", [((), "A subcommand is required"), (("run", "--prompt", "x"), "--model is required")])
def test_what_is_missing_is_named(arguments, missing):
    done = subprocess.run([PACELINE, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and missing in done.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--rule", "lucky"),
        ("--rule", "lenient", "--lenience", "0"),
        ("--rule", "typical", "--delta", "1.5"),
        ("--rule", "typical", "--lenience", "0.5"),
        ("--epsilon", "0.5"),
    ],
)
def test_rules_and_parameters_that_cannot_be_are_wrong_usage(flags):
    done = run(*flags)
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr != ""


def prompt_of(*arguments):
    """The report of a run with the prompt "Hello"."""
    done = subprocess.run([PACELINE, "run", "--model", "hash", "--prompt", "Hello", "--max-tokens", "3", "--json", *arguments],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["prompt_tokens"]


def test_a_model_with_a_chat_template_gets_a_message():
    template = ("--chat-template", "chatml")
    raw = prompt_of()
    message = prompt_of(*template)
    assert prompt_of(*template, "--raw") == raw
    assert prompt_of(*template, "--chat") == message != raw
    told = prompt_of(*template, "--system", "Be brief.")
    assert len(told) > len(message) and told[-len(message):] == message


@pytest.mark.parametrize(
    "flags, code, words",
    [
        (("--chat",), 69, "no chat template"),
        (("--system", "x"), 1, "--system: the model has no chat template"),
        (("--raw", "--chat"), 2, "--raw excludes --chat"),
        (("--raw", "--system", "x"), 2, "--raw excludes --system"),
    ],
)
def test_a_template_that_is_not_there_is_named(flags, code, words):
    done = run(*flags)
    assert done.returncode == code and words in done.stderr and done.stdout == ""


def test_the_report_has_the_name_that_was_given():
    assert json.loads(run("--json", "--alias", "mine").stdout)["model"] == "mine"


def test_a_template_may_come_through_a_pipe():
    command = f"{PACELINE} run --model hash --prompt Hello --max-tokens 3 --json --chat-template <(echo -n '[{{{{ messages[0].content }}}}]')"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    plain = prompt_of()
    tokens = json.loads(done.stdout)["prompt_tokens"]
    assert len(tokens) == 7 and tokens[1:-1] == plain[-5:], "in brackets, without BOS"


@pytest.mark.parametrize("words", [("help",), ("help", "run"), ("run", "--help")])
def test_help_may_be_a_word(words):
    done = subprocess.run([PACELINE, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"Usage: paceline {'run ' if 'run' in words else '['}" in done.stdout


@pytest.mark.parametrize("text", ["abcabcabc", "two\nlines", "ends with one\n"])
def test_a_prompt_of_a_dash_is_standard_input(text):
    flags = ["--model", "hash", "--max-tokens", "20", "--ignore-eos", "--json"]
    given = subprocess.run([PACELINE, "run", *flags, "--prompt", text], capture_output=True, text=True, timeout=60)
    piped = subprocess.run([PACELINE, "run", *flags, "--prompt", "-"], input=text + "\n", capture_output=True, text=True, timeout=60)
    assert piped.returncode == 0, piped.stderr
    assert json.loads(piped.stdout)["prompt_tokens"] == json.loads(given.stdout)["prompt_tokens"]


def test_an_interrupt_stops_a_reply_and_keeps_the_conversation(tmp_path):
    template = tmp_path / "chat.jinja"
    template.write_text("{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}<assistant>")
    arguments = ["--model", "hash", "--chat-template", template, "--ctx-size", "2000000", "--max-tokens", "900000", "--ignore-eos"]
    process = subprocess.Popen(
        [PACELINE, "chat", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    replied = threading.Semaphore(0)

    def read_replies():
        while process.stdout.read(4096):
            replied.release()

    def wait_for_prompt():
        told = b""
        while not told.endswith(b"> "):
            byte = process.stderr.read(1)
            assert byte, f"it ended: {told}"
            told += byte

    reader = threading.Thread(target=read_replies)
    reader.start()
    wait_for_prompt()
    for message in (b"a long story\n", b"another\n"):
        while replied.acquire(timeout=0.5):
            pass  # the rest of the reply before
        process.stdin.write(message)
        assert replied.acquire(timeout=60)
        process.send_signal(signal.SIGINT)
        wait_for_prompt()
    process.stdin.write(b"/bye\n")
    assert process.wait(timeout=60) == 0
    reader.join()


def test_a_beam_search_reports_its_best_hypotheses():
    done = subprocess.run(
        [PACELINE, "run", "--model", "hash", "--prompt", "abcabcabc", "--max-tokens", "20", "--ignore-eos", "--json"]
        + ["--beam-width", "4", "--num-best", "3"],
        capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    scores = [one["score"] for one in report["hypotheses"]]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    assert report["tokens"] == report["hypotheses"][0]["tokens"]


def test_what_a_beam_search_cannot_act_on_is_refused():
    assert run("--num-best", "2").returncode == 2
    refused = run("--beam-width", "2")  # at temperature 0.3
    assert refused.returncode == 1 and "temperature" in refused.stderr
