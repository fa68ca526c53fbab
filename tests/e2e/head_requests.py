"""The requests of a parity test to a daemon: one random target, one drafter, and requests whose rounds are traced."""
import concurrent.futures
import dataclasses
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench" / "e2e"))
import bench_daemon  # noqa: E402

DRAFTER = "head"


@dataclasses.dataclass(frozen=True)
class Answer:
    """One request's outcome. `rounds` as on the wire: base_length, draft_tokens, parents, accepted, num_accepted."""

    drafter: str  # that it asked for
    prompt: list
    output: list
    rounds: list
    max_tokens: int
    num_cached: int

    @property
    def tokens(self):
        return self.prompt + self.output


def config_of(target_path, head_path, kind, shape):
    """The daemon's file. `head_path` None: the target has it. `shape`: options of the drafter."""
    drafter = {"name": DRAFTER, "kind": kind} | ({"path": str(head_path)} if head_path else {}) | shape
    model = {"path": str(target_path), "kv": {"dtype": "f32"}, "default_drafter": DRAFTER,
             "drafters": [drafter, {"name": "ngram", "kind": "ngram"}]}
    return {"version": 1, "server": {"port": 0}, "scheduler": {"pass_timing": 0}, "engine": {"threads": 1},
            "logging": {"level": "warning"}, "models": [model]}


def least_memory(program, config, folder):
    """The smallest memory budget with which the daemon starts, in bytes: it says so when it gets less."""
    file = Path(folder) / "least.yaml"
    file.write_text(json.dumps(config))
    refused = subprocess.run([program, "serve", "--config", file, "--set", "engine.memory_budget=1B"],
                             capture_output=True, text=True, timeout=60)
    return int(re.search(r"it takes (\d+) bytes", refused.stdout + refused.stderr).group(1))


def body_of(prompt, salt, lenience, drafter, max_tokens):
    """Greedy, with a rule that keeps any draft token that the target finds not too unlikely."""
    return {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "cache_salt": salt,
            "return_token_ids": True, "paceline": {"trace": True},
            "speculation": {"drafter": drafter, "rule": "lenient", "lenience": lenience}}


class Client:
    """A running daemon and what is asked of it."""

    def __init__(self, program, config, folder, settings=()):
        """`settings`: further ones, as "engine.memory_budget=2MiB"."""
        flags = [flag for one in settings for flag in ("--set", one)]
        self.process, self.port = bench_daemon.start_command([program, "serve"], config, folder, flags)

    def stop(self):
        bench_daemon.stop(self.process)

    def count(self, metric, label=""):
        """The sum of a metric's samples, of those with this text among their labels."""
        with urllib.request.urlopen(f"http://{bench_daemon.HOST}:{self.port}/metrics") as reply:
            lines = reply.read().decode().splitlines()
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines
                   if line.startswith(metric + "{") and label in line)

    def preemptions(self):
        """Requests that were set back for lack of memory so far."""
        return self.count("paceline_preemptions_total")

    def tokens_known_to_head(self):
        """Tokens of requests that were found in the prefix cache of the head's own pool."""
        return self.count("paceline_prefix_hit_tokens_total", f'/{DRAFTER}"')

    def ask(self, body):
        request = urllib.request.Request(f"http://{bench_daemon.HOST}:{self.port}/v1/completions",
                                         json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            answer = json.load(reply)
        choice, details = answer["choices"][0], answer["usage"].get("prompt_tokens_details") or {}
        return Answer(body["speculation"]["drafter"], body["prompt"], choice["token_ids"], choice["paceline"]["rounds"],
                      body["max_tokens"], details.get("cached_tokens", 0))

    def ask_all(self, bodies):
        """All at once."""
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            return list(pool.map(self.ask, bodies))


def ask_everything(client, draw_tokens, lenience, max_tokens, with_auto):
    """Prompts of one token to many chunks, alone and together; then texts that begin with a prompt of before.

    `draw_tokens(n)`: n random tokens. `with_auto`: some leave the choice of the drafter to the server, so that the head
    sits out rounds.
    """
    def body(prompt, salt, drafter=DRAFTER):
        return body_of(prompt, salt, lenience, drafter, max_tokens)

    prompts = [draw_tokens(length) for length in (1, 2, 9, 33, 150, 420)]
    answers = [client.ask(body(prompts[2], "alone")), client.ask(body(prompts[4], "alone"))]
    answers += client.ask_all([body(prompt, "shared") for prompt in prompts])
    longer = [answer.tokens + draw_tokens(5) for answer in answers[-2:]]
    answers += client.ask_all([body(prompt, "shared") for prompt in [*prompts[-2:], *longer]])
    if with_auto:
        answers += client.ask_all([body(prompt, "auto", "auto") for prompt in (draw_tokens(20) * 3, prompts[3])])
    return answers
