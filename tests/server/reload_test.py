"""SIGHUP: the file is read again, as a whole or not at all."""
import signal
import threading

BODY = {"prompt": "x", "max_tokens": 3, "ignore_eos": True}


def status(daemon, key, **body):
    return daemon.post("/v1/completions", BODY | body, {"Authorization": f"Bearer {key}"})[0]


def test_changed_options_take_effect_at_once(start_daemon, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("first\n")
    server = f"server: {{api_keys_file: {keys}, allowed_origins: ['https://one.example']}}\n"
    daemon = start_daemon(sections=server)
    assert (status(daemon, "first"), status(daemon, "second")) == (200, 401)
    page = {"Authorization": "Bearer second", "Origin": "https://two.example"}
    assert daemon.get("/v1/models", page)[0] == 403

    keys.write_text("second\n")  # the file's name stays: what it holds is what changed
    assert status(daemon, "second") == 401, "before the signal nothing changes"
    daemon.configure(
        f"server: {{api_keys_file: {keys}, allowed_origins: ['https://two.example']}}\n"
        "metrics: {require_key: true}\nlogging: {level: error}\n"
    )
    before = daemon.metric("paceline_config_reloads_total", result="applied")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for(lambda: daemon.get("/metrics")[0] == 401)  # `metrics.require_key` is the last of them
    assert (status(daemon, "first"), status(daemon, "second")) == (401, 200)
    assert daemon.get("/v1/models", page)[0] == 200
    assert daemon.get("/metrics", page)[2].count('paceline_config_reloads_total{result="applied"} %d' % (before + 1)) == 1
    daemon.terminate()
    _, log = daemon.process.communicate(timeout=30)
    assert "drain" not in log, "the level was raised"


def test_the_log_names_what_changed_and_what_waits_for_a_restart(start_daemon):
    daemon = start_daemon()
    daemon.configure("server: {request_timeout: 7s, max_lanes: 3}\n")
    daemon.reload()
    daemon.terminate()
    _, log = daemon.process.communicate(timeout=30)
    [line] = [line for line in log.splitlines() if "configuration read again" in line]
    assert "changed=server.request_timeout" in line and "after_restart=server.max_lanes" in line


def test_the_log_counts_keys_that_changed_and_names_none(start_daemon, tmp_path):
    """The option that names the file is the same, so that nothing seemed to have changed."""
    keys = tmp_path / "keys"
    keys.write_text("alpha-secret\nbeta-secret\ngamma-secret\n")
    daemon = start_daemon(sections=f"server: {{api_keys_file: {keys}}}\n")
    keys.write_text("beta-secret\ngamma-secret best_priority=-3\ndelta-secret\nepsilon-secret\n")
    daemon.reload()
    daemon.reload()  # with the same keys: nothing to tell
    daemon.terminate()
    _, log = daemon.process.communicate(timeout=30)
    [line] = [line for line in log.splitlines() if "keys changed" in line]
    assert "added=2 removed=1 other_rights=1" in line
    first, second = [line for line in log.splitlines() if "configuration read again" in line]
    assert "changed=server.api_keys_file " in first and "api_keys_file" not in second
    assert "secret" not in log


def test_a_new_time_limit_holds_for_new_requests(start_daemon):
    daemon = start_daemon(**{"models.0.hash.pass_work": 2000000})
    long = BODY | {"max_tokens": 3000, "speculation": {"drafter": "none"}}
    daemon.configure("server: {request_timeout: 200ms}\n")
    daemon.reload()
    status, _, reply = daemon.post("/v1/completions", long)
    assert status == 408 and reply["error"]["code"] == "deadline_exceeded"


def test_a_broken_file_is_refused_while_requests_go_on(start_daemon, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("good\n")
    server = f"server: {{api_keys_file: {keys}}}\n"
    daemon = start_daemon(sections=server)
    failed, ended = [], threading.Event()

    def ask():
        while not ended.is_set():
            if status(daemon, "good") != 200:
                failed.append(1)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    broken = [
        "server: {api_keys_fil: x}\n",  # an unknown key
        "server: {request_timeout: 5}\n",  # no unit
        "server: [\n",  # no YAML
        "server: {api_keys_file: /nowhere/keys}\n",
        "models: []\n",  # twice the same key
    ]
    try:
        for round in range(20):
            daemon.configure(broken[round % len(broken)])
            daemon.reload()
            assert daemon.metric("paceline_config_last_reload_refused") == 1
            daemon.configure(server)
            daemon.reload()
            assert daemon.metric("paceline_config_last_reload_refused") == 0
    finally:
        ended.set()
        for asker in askers:
            asker.join()
    assert not failed
    assert daemon.metric("paceline_config_reloads_total", result="refused") == 20
    assert daemon.metric("paceline_config_reloads_total", result="applied") == 20
    daemon.terminate()
    _, log = daemon.process.communicate(timeout=30)
    refusals = [line for line in log.splitlines() if "refused" in line]
    assert len(refusals) == 20 and all("daemon.yaml:" in line or "/nowhere/keys" in line for line in refusals)
    assert any("api_keys_fil" in line for line in refusals)


def test_an_open_server_cannot_lose_its_keys(start_daemon, tmp_path):
    """The new file would be right for loopback; the socket that is open is not on it."""
    keys = tmp_path / "keys"
    keys.write_text("good\n")
    daemon = start_daemon(sections=f"server: {{host: 0.0.0.0, api_keys_file: {keys}}}\n")
    daemon.configure("server: {host: 127.0.0.1}\n")
    daemon.reload()
    assert daemon.metric("paceline_config_reloads_total", result="refused") == 1
    assert daemon.get("/v1/models")[0] == 401
