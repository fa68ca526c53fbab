import pytest

from daemon import Daemon

pytest.register_assert_rewrite("chromium_page", "loading_daemon")


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    """A fast model with the default bounds."""
    running = Daemon(tmp_path_factory.mktemp("daemon"))
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def slow_daemon(tmp_path_factory):
    """A model that takes a few milliseconds a pass, and short timeouts."""
    running = Daemon(
        tmp_path_factory.mktemp("slow"),
        **{
            "models.0.hash.pass_work": 2000000,
            "server.header_timeout": "400ms",
            "server.body_timeout": "400ms",
            "server.send_timeout": "1s",
            "server.max_body": "64KiB",
        },
    )
    yield running
    assert running.stop() == 0


@pytest.fixture
def start_daemon(tmp_path):
    """Starts daemons of a test's own."""
    started = []

    def start(**overrides):
        started.append(Daemon(tmp_path, **overrides))
        return started[-1]

    yield start
    for one in started:
        one.stop()
