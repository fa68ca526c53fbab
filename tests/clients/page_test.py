"""The Python blocks of docs/clients.md, run as they stand."""
import importlib.util
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/clients.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
CLIENTS = [re.search(r"^(?:import|from) (\w+)", block, re.M).group(1) for block in BLOCKS]


@pytest.mark.parametrize("client, block", zip(CLIENTS, BLOCKS), ids=CLIENTS)
def test_a_block_prints_an_answer(served, capsys, monkeypatch, client, block):
    if not importlib.util.find_spec(client):
        pytest.skip(f"{client} is in the other environment")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    exec(block.replace("http://127.0.0.1:8080", served.url).replace("smollm2", "small"), {"__name__": "page"})
    assert len(capsys.readouterr().out) > 3
