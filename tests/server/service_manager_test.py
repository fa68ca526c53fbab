"""The notifications systemd reads, and the unit that starts the daemon."""
import configparser
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest

ROOT = pathlib.Path(os.environ["PACELINE_SOURCE_DIR"])


class Manager:
    """The manager's end of NOTIFY_SOCKET."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.socket.settimeout(20)

    def next(self):
        """The next datagram that is no sign of life, as a dictionary."""
        while (text := self.socket.recv(4096).decode()) == "WATCHDOG=1":
            pass
        return dict(line.split("=", 1) for line in text.split("\n"))

    def wait_for_sign_of_life(self):
        while self.socket.recv(4096) != b"WATCHDOG=1":
            pass


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_it_tells_when_it_is_ready_reads_again_and_stops(start_daemon, tmp_path, kind):
    name = str(tmp_path / "notify") if kind == "path" else f"@paceline-test-{os.getpid()}"
    manager = Manager(name if kind == "path" else "\0" + name[1:])
    daemon = start_daemon(environment={"NOTIFY_SOCKET": name})
    assert manager.next() == {"READY": "1", "STATUS": f"listening on {daemon.url}"}
    daemon.process.send_signal(signal.SIGHUP)
    begun = manager.next()
    assert begun["RELOADING"] == "1" and int(begun["MONOTONIC_USEC"]) > 0
    assert manager.next()["READY"] == "1"
    daemon.configure("nonsense: 1\n")
    daemon.process.send_signal(signal.SIGHUP)
    assert manager.next()["RELOADING"] == "1"
    assert manager.next() == {"READY": "1", "STATUS": "configuration refused"}
    daemon.terminate()
    assert manager.next()["STOPPING"] == "1"
    assert daemon.stop() == 0


def test_it_gives_signs_of_life_while_its_actors_are_well(start_daemon, tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    start_daemon(environment={"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"})
    for _ in range(3):
        manager.wait_for_sign_of_life()


def test_a_socket_that_nobody_reads_is_no_reason_to_fail(start_daemon, tmp_path):
    daemon = start_daemon(environment={"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": "10000"})
    assert daemon.get("/livez")[0] == 200
    assert daemon.stop() == 0


def unit():
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read(ROOT / "deploy" / "paceline.service")
    return parser


def test_the_unit_fits_the_program():
    service = unit()["Service"]
    command = service["ExecStart"].split()
    assert command[:3] == ["/usr/local/bin/paceline", "serve", "--config"]
    help_text = subprocess.run([os.environ["PACELINE_BIN"], "serve", "--help"], capture_output=True, text=True).stdout
    for flag in re.findall(r"--[a-z-]+", service["ExecStart"]):
        assert flag in help_text
    assert service["Type"] == "notify" and service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    # Wrong usage and wrong configuration do not become right by starting again.
    assert service["RestartPreventExitStatus"].split() == ["2", "78"]
    for setting in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectHome"):
        assert service[setting] == "yes"
    assert service["ProtectSystem"] == "strict"


def test_the_unit_stops_later_than_the_drain(start_daemon):
    text = (ROOT / "config" / "examples" / "daemon.yaml").read_text()
    drain = int(re.search(r"drain_timeout: (\d+)s", text)[1])
    assert int(unit()["Service"]["TimeoutStopSec"]) > drain


def test_systemd_understands_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    installed = tmp_path / "paceline.service"
    installed.write_text((ROOT / "deploy" / "paceline.service").read_text().replace("/usr/local/bin/paceline", os.environ["PACELINE_BIN"]))
    verdict = subprocess.run(["systemd-analyze", "verify", str(installed)], capture_output=True, text=True)
    assert verdict.returncode == 0 and "paceline.service" not in verdict.stderr, verdict.stderr
