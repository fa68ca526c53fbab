"""Builds of llama.cpp (made by setup.sh): results of `llama-bench`, and servers to measure."""
import json
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request


class Failed(RuntimeError):
    """A program failed. The text says why."""


def why(done, stderr):
    if done < 0:
        return f"ended by signal {-done} ({signal.strsignal(-done)})"
    return f"exit code {done}: " + " | ".join(stderr.strip().splitlines()[-3:])


def builds(home):
    """{name: folder of programs} of what setup.sh has built."""
    return {folder.name.removeprefix("llama-"): folder / "bin" for folder in sorted(home.glob("llama-*"))
            if (folder / "bin/llama-bench").exists()}


def measure(program, model, threads, what, tokens):
    """Tokens a second of one run of `program`: llama-bench, or one that takes its flags and prints its JSON."""
    sizes = ["-p", tokens, "-n", 0] if what == "prefill" else ["-p", 0, "-n", tokens]
    try:
        done = subprocess.run([str(part) for part in (*program, "-m", model, "-t", threads, *sizes)], capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        raise Failed("did not end within 15 minutes") from None
    if done.returncode != 0:
        raise Failed(why(done.returncode, done.stderr))
    return json.loads(done.stdout)[0]["avg_ts"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A program that listens on a port of the loopback, from its start to its `stop`."""

    def __init__(self, command, port):
        self.url = f"http://127.0.0.1:{port}"
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([str(c) for c in command], stdout=self.errors, stderr=self.errors)
        end = time.monotonic() + 300
        while not self.answers():
            if self.process.poll() is not None:
                self.errors.seek(0)
                raise Failed(why(self.process.returncode, self.errors.read()))
            if time.monotonic() > end:
                self.stop()
                raise Failed("does not answer")
            time.sleep(0.1)

    def answers(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def how_it_ended(self):
        """Why the program ended, or none while it runs. After a broken connection it may take a moment to end."""
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return ""
        self.errors.seek(0)
        return why(self.process.returncode, self.errors.read())

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


def server(programs, model, threads, slots, context, flags):
    """llama-server with room for `slots` requests of `context` positions, prompts not kept."""
    port = free_port()
    return Server([programs / "llama-server", "-m", model, "-t", threads, "--host", "127.0.0.1", "--port", port, "-np", slots, "-c",
                   slots * context, *flags], port)
