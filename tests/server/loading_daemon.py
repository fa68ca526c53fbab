"""A daemon whose port is open while its models are loaded.

Each model's weights are read after its chat template, so a template that is a named pipe holds the load at a known place
until the test writes it.
"""
import contextlib
import errno
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
PATIENCE = 60  # seconds until a test fails that waits for something


class Lines:
    """The lines of a process, read as they come: so it never waits for a reader, and a test never for ever."""

    def __init__(self, pipe):
        self.seen, self.queue = [], queue.Queue()
        self.thread = threading.Thread(target=self.read, args=(pipe,), daemon=True)
        self.thread.start()

    def read(self, pipe):
        with pipe:
            for line in pipe:
                self.queue.put(line)
        self.queue.put("")

    def next(self):
        """The next line; empty at the end."""
        try:
            line = self.queue.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"no further line behind {self.seen}") from None
        if not line:
            self.queue.put("")  # the end stays the end
        self.seen.append(line)
        return line

    def rest(self):
        """All lines to the end, those that were seen first."""
        while self.next():
            pass
        return "".join(self.seen)


class LoadingDaemon:
    """Reads model "first", a file, and waits for the template of the second."""

    def __init__(self, folder, second="{name: second, path: %(file)s, chat_template: %(pipe)s}", sections="", environment={}):
        self.pipe, self.config = folder / "chat.pipe", folder / "daemon.yaml"
        os.mkfifo(self.pipe)
        model = folder / "tiny.gguf"
        tool = pathlib.Path(os.environ["PACELINE_BINARY_DIR"]) / "bin" / "tiny_model_tool"
        subprocess.run([tool, "write", model], check=True, capture_output=True, timeout=PATIENCE)
        self.models = "version: 1\nmodels:\n" + "".join(
            f"  - {one}\n" for one in (f"{{name: first, path: {model}}}", second % {"file": model, "pipe": self.pipe})
        )
        self.config.write_text(self.models + (sections or "server: {port: 0}\n"))
        self.process = subprocess.Popen(
            [os.environ["PACELINE_BIN"], "serve", "--config", self.config], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | environment,
        )
        self.output, self.log = Lines(self.process.stdout), Lines(self.process.stderr)

    def wait_until_it_loads(self):
        self.url = re.search(r"address=(\S+)", self.wait_for_line("port open"))[1]
        self.wait_for_line("loaded what=first")

    def wait_for_line(self, words):
        while line := self.log.next():
            if words in line:
                return line
        raise AssertionError(f"never logged {words}: {self.log.seen}")

    def ask(self, path, body=None, headers={}):
        """Status, headers and text of a reply."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"} | headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, reply.headers, reply.read().decode()
        except urllib.error.HTTPError as reply:
            return reply.code, reply.headers, reply.read().decode()

    def go_on(self, template=TEMPLATE):
        """Writes the template, once the daemon reads it."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                pipe = os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError as failure:
                if failure.errno != errno.ENXIO or time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.02)
        with os.fdopen(pipe, "w") as file:
            file.write(template)

    def wait_until_it_serves(self):
        assert self.output.next() == f"listening on {self.url}\n"

    def end(self, sent=signal.SIGTERM):
        self.process.send_signal(sent)
        return self.process.wait(timeout=PATIENCE)

    def kill(self):
        """Removes everything, whatever has happened."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(timeout=PATIENCE)
        for lines in (self.output, self.log):
            lines.thread.join(timeout=PATIENCE)
            assert not lines.thread.is_alive()


@contextlib.contextmanager
def loading_daemons(folder):
    """Returns a function that starts daemons which pause while they load. All of them end with the test."""
    started = []

    def start(**arguments):
        started.append(LoadingDaemon(folder, **arguments))
        started[-1].wait_until_it_loads()
        return started[-1]

    try:
        yield start
    finally:
        for one in started:
            one.kill()
