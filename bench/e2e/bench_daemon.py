"""The daemon that a bench measures, started with the bench's own configuration on a free loopback port."""
import json
import signal
import subprocess
from pathlib import Path

HOST = "127.0.0.1"


def start(program, config, folder, **options):
    """The running `paceline serve` and its port. `config` is YAML text, or an object with its content, and has
    `server.port` 0. `options` are those of the process."""
    return start_command([program, "serve"], config, folder, **options)


def start_command(command, config, folder, arguments=(), **options):
    """The same for any program that takes --config and prints where it listens. `arguments` are its last arguments."""
    file = Path(folder) / "bench.yaml"
    file.write_text(config if isinstance(config, str) else json.dumps(config))  # JSON is YAML
    process = subprocess.Popen([*command, "--config", file, *arguments], stdout=subprocess.PIPE, text=True, **options)
    line = process.stdout.readline()
    if not line.startswith("listening on "):
        raise SystemExit("the daemon did not start")
    return process, int(line.rsplit(":", 1)[1])


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)


def memory(process, field):
    """Bytes of one field of the process's status, such as VmRSS."""
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))
