"""The notifications systemd reads, and the unit that starts the daemon."""
import configparser
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess

import pytest

from service_manager import Manager

ROOT = pathlib.Path(os.environ["PACELINE_SOURCE_DIR"])


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_it_tells_when_it_is_ready_reads_again_and_stops(start_daemon, tmp_path, kind):
    name = str(tmp_path / "notify") if kind == "path" else f"@paceline-test-{os.getpid()}"
    manager = Manager(name if kind == "path" else "\0" + name[1:])
    daemon = start_daemon(environment={"NOTIFY_SOCKET": name})
    assert manager.next()["STATUS"].startswith("loading ")
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


def unit_commands(name):
    text = (ROOT / "deploy" / "paceline.service").read_text()
    return [line.split("=", 1)[1] for line in text.splitlines() if line.startswith(name + "=")]


def run_for(root, command):
    """A command of the unit as the manager runs it, with the folders of the system under `root`."""
    command = command.lstrip("+-")
    for folder in ("/etc/paceline", "/run/paceline"):
        command = command.replace(folder, f"{root}{folder}")
    return subprocess.run(shlex.split(command), capture_output=True, text=True)


@pytest.mark.parametrize("name", ["ExecStartPre", "ExecReload"])
def test_the_unit_needs_keys_only_where_there_are_some(tmp_path, name):
    command = unit_commands(name)[0]
    source, copy = tmp_path / "etc/paceline/api_keys", tmp_path / "run/paceline/api_keys"
    for folder in (source.parent, copy.parent):
        folder.mkdir(parents=True)
    result = run_for(tmp_path, command)
    assert result.returncode == 0 and not copy.exists(), result
    source.write_text("alpha\n")
    assert run_for(tmp_path, command).returncode == 0
    assert copy.read_text() == "alpha\n" and copy.stat().st_mode & 0o777 == 0o444
    source.write_text("beta\n")
    assert run_for(tmp_path, command).returncode == 0 and copy.read_text() == "beta\n"
    source.unlink()
    assert run_for(tmp_path, command).returncode == 0
    assert not copy.exists(), "keys that were taken away would stay valid"


@pytest.mark.parametrize("name", ["ExecStartPre", "ExecReload"])
def test_the_unit_copies_certificates_where_there_are_some(tmp_path, name):
    command = unit_commands(name)[1]
    source, copy = tmp_path / "etc/paceline/tls", tmp_path / "run/paceline/tls"
    copy.parent.mkdir(parents=True)
    assert run_for(tmp_path, command).returncode == 0 and not copy.exists()
    source.mkdir(parents=True)
    assert run_for(tmp_path, command).returncode == 0, "an empty folder"
    for text in ("first", "renewed"):
        for file in ("fullchain.pem", "privkey.pem"):
            (source / file).write_text(text)
        assert run_for(tmp_path, command).returncode == 0
        assert [(copy / file).read_text() for file in ("fullchain.pem", "privkey.pem")] == [text, text]
    assert (copy / "privkey.pem").stat().st_mode & 0o777 == 0o444
    shutil.rmtree(source)
    assert run_for(tmp_path, command).returncode == 0 and not copy.exists()


def test_a_configuration_without_keys_starts_as_the_unit_starts_it(tmp_path):
    config = tmp_path / "etc/paceline/daemon.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("version: 1\nmodels: [{name: hash, kind: hash}]\nserver: {port: 0}\n")
    command = unit()["Service"]["ExecStart"].replace("/etc/paceline", str(config.parent)).split()
    program = os.environ["PACELINE_BIN"]
    checked = subprocess.run([program, "check-config", *command[3:]], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    environment = os.environ | {"PACELINE_API_KEYS": str(tmp_path / "run/paceline/api_keys")}
    process = subprocess.Popen([program, *command[1:]], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline().startswith("listening on ")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_the_unit_leaves_gpus_and_the_compiler_of_patterns_alone():
    service = unit()["Service"]
    assert service.get("PrivateDevices", "no") == "no", "hides /dev/nvidia*"
    assert service["DevicePolicy"] == "closed" and service["DeviceAllow"].startswith("char-nvidia* ")
    assert service.get("MemoryDenyWriteExecute", "no") == "no", "PCRE2 would interpret its patterns"


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
