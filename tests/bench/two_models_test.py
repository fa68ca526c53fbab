"""bench/e2e/two_models.py: which figures it reports as below their bounds."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(os.environ["PACELINE_SOURCE_DIR"]) / "bench/e2e"))
import two_models

EVEN = {"of_lone_speed": 0.48, "device_share": 0.5, "draft_seconds": 0.1}


def test_even_shares_pass():
    assert two_models.missed({"first": EVEN, "second": EVEN}, drafts=True) == []


@pytest.mark.parametrize("what", [{"of_lone_speed": 0.41}, {"device_share": 0.44}, {"device_share": 0.56}, {"draft_seconds": 0}])
def test_what_misses_its_bound_is_named(what):
    told = two_models.missed({"first": EVEN | what, "second": EVEN}, drafts=True)
    assert len(told) == 1 and "first" in told[0]


def test_requests_without_drafts_need_none():
    plain = EVEN | {"draft_seconds": 0}
    assert two_models.missed({"first": plain, "second": plain}, drafts=False) == []
