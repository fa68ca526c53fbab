"""The daemon's WebSocket connection passes Autobahn's test suite, which deploy/websocket_conformance.sh --prepare obtains."""
import os
import pathlib
import subprocess

import pytest

PYTHON = pathlib.Path(os.environ["PACELINE_SOURCE_DIR"]) / ".cache/autobahn/bin/python"


@pytest.mark.skipif(not PYTHON.exists(), reason="no suite: run deploy/websocket_conformance.sh --prepare")
def test_messages_fragments_pings_closes_and_utf8():
    peer = pathlib.Path(os.environ["PACELINE_BINARY_DIR"]) / "bin/echo_peer"
    suite = pathlib.Path(__file__).with_name("run_suite.py")
    run = subprocess.run([PYTHON, suite, peer], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert run.returncode == 0, run.stdout
    assert "247 cases" in run.stdout
