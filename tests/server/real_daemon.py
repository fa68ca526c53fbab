"""The daemon with a real model, for the openai client."""
import contextlib
import os
import pathlib
import signal
import subprocess

import openai
import pytest

MODEL = pathlib.Path(os.environ.get("PACELINE_MODEL_DIR", "")) / "smollm2.gguf"
needs_model = pytest.mark.skipif(
    "PACELINE_MODEL_DIR" not in os.environ or not MODEL.exists(), reason="no smollm2.gguf in PACELINE_MODEL_DIR"
)


@contextlib.contextmanager
def client_of(folder, config):
    """A client of a daemon with this configuration, which is written into `folder`. The daemon must end without an error."""
    path = folder / "daemon.yaml"
    path.write_text(config)
    daemon = subprocess.Popen([os.environ["PACELINE_BIN"], "serve", "--config", path], stdout=subprocess.PIPE, text=True)
    try:
        line = daemon.stdout.readline()
        assert line.startswith("listening on "), line
        with openai.OpenAI(base_url=line.split()[-1] + "/v1", api_key="none", max_retries=0, timeout=300) as one:
            yield one
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(timeout=60) == 0
    finally:  # also of a test that failed
        daemon.kill()
        daemon.communicate()
