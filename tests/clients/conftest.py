"""A daemon with a real model for clients that were not written here. deploy/clients.sh runs these tests."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/server"))

from daemon import Daemon

MODEL = pathlib.Path(os.environ.get("PACELINE_CLIENTS_MODEL", ROOT / ".cache/models/smollm2.gguf"))
# For a model whose template does not support tools.
TEMPLATE = ROOT / "tests/server/tools.jinja"


def knows_tools():
    with MODEL.open("rb") as file:
        return b"tool_call" in file.read(16 << 20)  # metadata come first


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """The daemon; its model is called "small"."""
    if not MODEL.exists():
        pytest.skip(f"{MODEL} is not there")
    template = {} if knows_tools() else {"models.0.chat_template": TEMPLATE}
    running = Daemon(
        tmp_path_factory.mktemp("clients"),
        models=f"  - {{name: small, path: {MODEL}, context_length: 4096}}\n",
        **{"engine.threads": 2, "server.kept_memory": "64MiB"} | template,
    )
    yield running
    assert running.stop() == 0


@pytest.fixture
def base_url(served):
    return served.url + "/v1"
