"""`paceline top` with a running daemon."""
import contextlib
import fcntl
import http.server
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))
from certificates import Authority  # noqa: E402
from daemon import Daemon  # noqa: E402

PACELINE = os.environ["PACELINE_BIN"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """Its context has room for a stream that no test outlasts."""
    running = Daemon(tmp_path_factory.mktemp("daemon"), **{"models.0.hash.pass_work": 300000, "models.0.context_length": 1 << 18})
    yield running
    assert running.stop() == 0


def top(*arguments):
    return subprocess.run([PACELINE, "top", *arguments], capture_output=True, text=True, timeout=60)


@pytest.fixture
def busy(daemon):
    """A stream runs, and is read, for as long as the test does."""
    body = json.dumps({"prompt": "abcabcabc", "max_tokens": 250_000, "ignore_eos": True, "stream": True}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with daemon.connect() as connection:
        connection.sendall(head % len(body) + body)
        data = b""
        while b"data: " not in data:
            more = connection.recv(65536)
            data += more
            assert more and b" 200 OK\r\n" in data, data
        connection.setblocking(True)  # with a time limit, reads of the descriptor would fail where they had to wait
        reader = threading.Thread(target=drain, args=(connection.fileno(),))
        reader.start()
        yield
        still_runs = reader.is_alive() and daemon.metric("paceline_requests_running") == 1
        connection.shutdown(socket.SHUT_RDWR)
        reader.join()
        assert still_runs
    daemon.wait_for(lambda: daemon.metric("paceline_requests_running") == 0, 60)


def test_once_shows_what_runs(daemon, busy):
    done = top(daemon.url, "--once", "--json", "--interval", "0.5")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["state"] == "serving" and shown["num_streams"] == 1 and shown["interval_seconds"] >= 0.5
    model, stream = shown["models"][0], shown["streams"][0]
    assert model["model"] == stream["model"] == "hash" and model["running"] == 1
    assert model["tokens_per_second"] > 0 and model["rounds_per_second"] > 0
    assert stream["prompt_tokens"] >= 9 and stream["output_tokens"] > 0 and stream["rounds"] > 0
    assert model["drafters"][0]["drafter"] == "lookup"
    pool = model["pools"][0]
    assert pool["active_blocks"] > 0 and pool["num_blocks"] >= pool["active_blocks"] + pool["free_blocks"]


def test_a_pipe_gets_plain_text(daemon, busy):
    done = top(daemon.url, "--once", "--interval", "0.2")
    assert done.returncode == 0 and "\x1b" not in done.stdout
    assert f"at {daemon.url}, serving" in done.stdout and "streams: 1, " in done.stdout
    assert re.search(r"^hash +1 +0 ", done.stdout, re.M), done.stdout


def test_a_pipe_gets_a_line_of_json_each_interval(daemon):
    process = subprocess.Popen([PACELINE, "top", daemon.url, "--json", "--interval", "0.1"], stdout=subprocess.PIPE, text=True)
    lines = [json.loads(process.stdout.readline()) for _ in range(3)]
    assert all(line["state"] == "serving" for line in lines)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0


def test_watchers_do_not_lock_it_out(daemon):
    with contextlib.ExitStack() as watchers:
        for _ in range(16):
            connection = watchers.enter_context(daemon.connect())
            connection.sendall(b"GET /paceline/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert daemon.get("/paceline/events")[0] == 503
        assert top(daemon.url, "--once", "--interval", "0.1").returncode == 0


def test_a_terminal_gets_a_page_that_is_written_over(daemon):
    master, slave = pty.openpty()
    process = subprocess.Popen([PACELINE, "top", daemon.url, "--interval", "0.1"], stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    data = b""
    while data.count(b"\x1b[H") < 3:
        data += os.read(master, 65536)
    process.send_signal(signal.SIGINT)
    try:
        while more := os.read(master, 65536):
            data += more
    except OSError:
        pass  # the other end is closed
    assert process.wait(timeout=30) == 0
    assert data.startswith(b"\x1b[?1049h") and data.rstrip().endswith(b"\x1b[?1049l"), "the terminal is as before"
    os.close(master)


ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Page:
    """`top` with a terminal of 80 columns as its standard input and output."""

    def __init__(self, url, *arguments):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.modes_before = self.modes()
        # In a group of its own within this session, for a group that no shell could continue is not stopped by SIGTSTP.
        self.process = subprocess.Popen([PACELINE, "top", url, "--interval", "0.1", *arguments], stdin=self.slave, stdout=self.slave, process_group=0)
        self.seen = b""

    def modes(self):
        return termios.tcgetattr(self.slave)

    def read(self):
        if select.select([self.master], [], [], 0.05)[0]:
            self.seen += os.read(self.master, 65536)

    def wait_for(self, text, seconds=30):
        """Reads until `text` appears; returns all up to its end and forgets it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            self.read()
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def end(self, seconds=30):
        """Waits for the end of the process; returns its exit code."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, self.seen
            self.read()
        self.read()
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def page(daemon):
    with contextlib.closing(Page(daemon.url)) as one:
        one.wait_for(b"ACCEPTED")
        yield one


def test_q_ends_the_page(page):
    during = page.modes()[3]
    assert not during & termios.ECHO and not during & termios.ICANON
    os.write(page.master, b"x")
    page.wait_for(b"\x1b[H")
    page.wait_for(b"\x1b[H")
    assert page.process.poll() is None, "another key does not"
    os.write(page.master, b"q")
    assert page.end() == 0 and page.seen.endswith(LEAVE)
    assert page.modes() == page.modes_before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_before(page, number):
    page.process.send_signal(number)
    assert page.end() == 0 and page.seen.endswith(LEAVE)
    assert page.modes() == page.modes_before


def test_the_terminal_is_as_before_while_the_page_is_stopped(page):
    for _ in range(2):
        page.process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(page.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        page.wait_for(LEAVE)
        page.read()
        assert page.seen == b"" and page.modes() == page.modes_before
        page.process.send_signal(signal.SIGCONT)
        page.wait_for(ENTER)
        page.wait_for(b"ACCEPTED")
        assert not page.modes()[3] & termios.ECHO
    os.write(page.master, b"q")
    assert page.end() == 0


def test_a_page_that_was_stopped_by_force_has_its_modes_again(page):
    during = page.modes()
    page.process.send_signal(signal.SIGSTOP)
    os.waitpid(page.process.pid, os.WUNTRACED)
    termios.tcsetattr(page.slave, termios.TCSANOW, page.modes_before)  # what a shell does
    page.process.send_signal(signal.SIGCONT)
    end = time.monotonic() + 30
    while page.modes() != during:
        assert time.monotonic() < end
        page.read()
    os.write(page.master, b"q")
    assert page.end() == 0 and page.modes() == page.modes_before


class SlowDaemon(http.server.BaseHTTPRequestHandler):
    """Answers the first look, and no later one."""

    num_requests = 0
    release = threading.Event()

    def do_GET(self):
        SlowDaemon.num_requests += 1
        if SlowDaemon.num_requests > 2:
            self.release.wait()
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + (b"data: {}\n\n" if "events" in self.path else b"a 1\n"))

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving(handler):
    """The address of a server whose requests `handler` answers."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_an_end_does_not_wait_for_a_slow_daemon():
    with serving(SlowDaemon) as url:
        try:
            with contextlib.closing(Page(url)) as page:
                page.wait_for(ENTER)
                while SlowDaemon.num_requests < 3:
                    time.sleep(0.01)
                begin = time.monotonic()
                os.write(page.master, b"q")
                assert page.end() == 0 and time.monotonic() - begin < 3, "a request may take five seconds"
        finally:
            SlowDaemon.release.set()


def test_it_waits_for_a_daemon_that_is_gone(tmp_path):
    running = Daemon(tmp_path)
    master, slave = pty.openpty()
    process = subprocess.Popen([PACELINE, "top", running.url, "--interval", "0.1"], stdout=slave)
    os.close(slave)
    data = b""
    while b"serving" not in data:
        data += os.read(master, 65536)
    assert running.stop() == 0
    while b"cannot reach" not in data:
        data += os.read(master, 65536)
    process.send_signal(signal.SIGINT)
    reader = threading.Thread(target=drain, args=(master,))
    reader.start()
    assert process.wait(timeout=30) == 0
    reader.join()
    os.close(master)


def drain(descriptor):
    try:
        while os.read(descriptor, 65536):
            pass
    except OSError:
        pass


def test_keys_are_sent(tmp_path):
    (tmp_path / "keys").write_text("sesame\n")
    running = Daemon(tmp_path, **{"server.api_keys_file": tmp_path / "keys", "metrics.require_key": "true"})
    refused = top(running.url, "--once")
    assert refused.returncode == 1
    assert "401: an API key is required; give a key with --api-key or PACELINE_API_KEY\n" in refused.stderr
    assert top(running.url, "--once", "--interval", "0.1", "--api-key", "sesame").returncode == 0
    assert running.stop() == 0


class HostileDaemon(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.wfile.write(b'HTTP/1.0 401 No\r\n\r\n{"error": {"message": "\\u001b[2J\\u009b no"}}')

    def log_message(self, *arguments):
        pass


def test_messages_of_a_daemon_have_no_control_characters():
    with serving(HostileDaemon) as url:
        refused = top(url, "--once")
    assert refused.returncode == 1 and "the daemon answered 401: \ufffd[2J\ufffd no; give a key with" in refused.stderr


class DaemonBehindAProxy(http.server.BaseHTTPRequestHandler):
    """Answers below one path only."""

    def do_GET(self):
        if self.path.startswith(("/llm/metrics", "/llm/paceline/events?")):
            self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + (b"data: {}\n\n" if "events" in self.path else b"a 1\n"))
        else:
            self.wfile.write(b"HTTP/1.0 404 No\r\n\r\n")

    def log_message(self, *arguments):
        pass


@pytest.mark.parametrize("path, code", [("/llm", 0), ("/llm/", 0), ("", 1), ("/", 1)])
def test_the_path_of_a_url_is_asked_below(path, code):
    with serving(DaemonBehindAProxy) as url:
        done = top(url + path, "--once", "--interval", "0.1")
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (("http://127.0.0.1:1",), 69, "cannot reach 127.0.0.1:1"),
        (("ftp://127.0.0.1",), 2, "is no URL"),
        (("http://",), 2, "is no URL"),
        (("https://127.0.0.1:1", "--ca-file", "/nowhere"), 2, "--ca-file: /nowhere"),
        (("--interval", "0"), 2, "--interval"),
        (("one", "two"), 2, "unknown argument two"),
    ],
)
def test_what_cannot_be_is_named(arguments, code, words):
    done = top(*arguments, "--once")
    assert done.returncode == code and words in done.stderr and done.stdout == ""


def test_certificates_are_checked(tmp_path):
    authority, other = Authority(tmp_path, "ca"), Authority(tmp_path, "other-ca")
    certificate, key = authority.issue("server", "DNS:localhost")
    running = Daemon(tmp_path, **{"server.tls.certificate": certificate, "server.tls.key": key})
    url = f"https://localhost:{running.port}"
    trusted = ("--once", "--interval", "0.1", "--ca-file", authority.file)
    assert top(url, *trusted).returncode == 0
    assert top(f"https://127.0.0.1:{running.port}", *trusted).returncode == 69, "the certificate is of another name"
    assert top(url, "--once", "--ca-file", other.file).returncode == 69
    assert top(f"http://localhost:{running.port}", "--once").returncode != 0
    assert running.stop() == 0
