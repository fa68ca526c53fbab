"""The configurations of docs/proxies.md in front of the daemon: streams and WebSockets without bursts, health, clients that leave."""
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import time

import pytest
from websockets.sync.client import connect

from certificates import Authority
from daemon import Daemon

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/proxies.md"
NAME = "inference.example.com"
COMMANDS = {
    "nginx": lambda file: ["nginx", "-p", file.parent, "-c", file],
    "haproxy": lambda file: ["haproxy", "-db", "-f", file],
    "caddy": lambda file: ["caddy", "run", "--adapter", "caddyfile", "--config", file],
}
AROUND = {
    "nginx": "daemon off; pid nginx.pid; error_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{}\n}}\n",
    "haproxy": "{}\n",
    "caddy": "{{\nadmin off\nauto_https off\nstorage file_system caddy\n}}\n{}\n",
}
NUM_TOKENS = 40
ASCII = {str(token): -100 for token in range(128, 300)}  # one character a token, and no end


def fields(**more):
    return {"max_tokens": NUM_TOKENS, "seed": 1, "logit_bias": ASCII, "speculation": {"drafter": "none"}} | more


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """The files that the page names: an authority and a certificate of it."""
    folder = tmp_path_factory.mktemp("certificates")
    _, key = Authority(folder, "ca").issue("fullchain", f"DNS:{NAME},IP:127.0.0.1")
    key.rename(folder / "privkey.pem")
    (folder / "haproxy.pem").write_text((folder / "fullchain.pem").read_text() + (folder / "privkey.pem").read_text())
    return folder


def replaced(text, changes):
    for old, new in changes.items():
        assert old in text, f"{PAGE.name} no longer has {old!r}"
        text = text.replace(old, new)
    return text


def configuration(proxy, port, daemon, certificates):
    """The page's block, with this test's ports and files."""
    block = re.search(rf"```{proxy if proxy != 'caddy' else 'caddyfile'}\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    if daemon.tls:
        block = re.sub(r"^.*#plain\n", "", block, flags=re.M).replace("#tls ", "")
    ports = {
        "nginx": {"listen 443": f"listen 127.0.0.1:{port}"},
        "haproxy": {"bind :443": f"bind 127.0.0.1:{port}", "inter 2s": "inter 200ms"},
        "caddy": {f"{NAME} {{\n    tls": f"https://{NAME}:{port} {{\n    bind 127.0.0.1\n    tls", "health_interval 2s": "health_interval 200ms"},
    }
    return AROUND[proxy].format(replaced(block, {"127.0.0.1:8080": f"127.0.0.1:{daemon.port}", "/etc/ssl/inference": str(certificates)} | ports[proxy]))


class Proxy:
    """A running proxy and what a client of it does. `tls`: between client and proxy; None for the daemon itself, in plain."""

    def __init__(self, port, daemon, tls):
        self.port, self.daemon, self.tls = port, daemon, tls

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def send(self, method, path, body=None):
        connection = http.client.HTTPConnection(NAME)
        connection.sock = self.tls.wrap_socket(self.socket(), server_hostname=NAME) if self.tls else self.socket()
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        return connection

    def ask(self, method, path, body=None):
        with contextlib.closing(self.send(method, path, body)) as connection:
            reply = connection.getresponse()
            return reply.status, reply.read()

    def stream(self):
        """Events of a stream and the number of reads in which they arrived."""
        with contextlib.closing(self.send("POST", "/v1/completions", fields(prompt="x", stream=True))) as connection:
            data, reads = b"", 0
            while b"[DONE]" not in data:
                piece = connection.sock.recv(65536)
                assert piece, data
                data, reads = data + piece, reads + 1
        return [json.loads(text) for text in re.findall(rb"data: (\{.*\})", data)], reads

    def websocket(self):
        """Events of a response over WebSocket and how many of them arrived at a time of their own."""
        tls = {"ssl": self.tls, "server_hostname": NAME} if self.tls else {}
        url = f"{'wss' if self.tls else 'ws'}://{NAME}/v1/responses"
        with connect(url, sock=self.socket(), compression=None, origin=f"https://{NAME}", **tls) as ws:
            ws.send(json.dumps({"type": "response.create", "input": "x"} | fields(max_output_tokens=NUM_TOKENS, max_tokens=None)))
            events, times = [], []
            while not events or events[-1]["type"] not in ("response.completed", "response.incomplete"):
                events.append(json.loads(ws.recv(timeout=60)))
                times.append(time.monotonic())
        return events, 1 + sum(after - before > 0.004 for before, after in zip(times, times[1:]))


@pytest.fixture(scope="module", params=["plain", "tls"])
def daemon(request, certificates, tmp_path_factory):
    tls = f"tls: {{certificate: {certificates}/fullchain.pem, key: {certificates}/privkey.pem}}, " if request.param == "tls" else ""
    running = Daemon(
        tmp_path_factory.mktemp("daemon"),
        f"server: {{{tls}allowed_hosts: [{NAME}]}}\n",
        tls=ssl.create_default_context(cafile=certificates / "ca.pem") if tls else None,
        **{"models.0.hash.pass_work": 4000000},
    )
    yield running
    assert running.stop() == 0


@contextlib.contextmanager
def started(kind, text, port, daemon, tls, folder):
    """The proxy with this configuration, once it answers."""
    file, log = folder / "proxy.conf", folder / "log"
    file.write_text(text)
    folder.chmod(0o755)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder)}
    with log.open("w") as out:
        process = subprocess.Popen(COMMANDS[kind](file), cwd=folder, stdout=out, stderr=out, env=environment)
    running = Proxy(port, daemon, tls)
    running.kind = kind

    def is_up():
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError):
            return running.ask("GET", "/livez")[0] == 200

    try:
        daemon.wait_for(is_up)
        yield running
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="module", params=COMMANDS)
def proxy(request, daemon, certificates, tmp_path_factory):
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    port, tls = free_port(), ssl.create_default_context(cafile=certificates / "ca.pem")
    text = configuration(request.param, port, daemon, certificates)
    with started(request.param, text, port, daemon, tls, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def direct(daemon):
    return Proxy(daemon.port, daemon, daemon.tls)


def test_events_of_a_stream_arrive_one_by_one(proxy, direct):
    events, reads = proxy.stream()
    expected, most = direct.stream()
    texts = ["".join(event["choices"][0]["text"] for event in some if event["choices"]) for some in (events, expected)]
    assert texts[0] == texts[1] and len(texts[0]) == NUM_TOKENS
    print(f"{proxy.kind}: {len(events)} events in {reads} reads, without it {most}")
    assert reads > most / 2, f"{len(events)} events came in {reads} reads, without the proxy in {most}"


@pytest.mark.skipif(not shutil.which("haproxy"), reason="haproxy is not installed")
def test_haproxy_sends_events_at_once_without_tls_too(daemon, certificates, direct, tmp_path):
    """Its `MSG_MORE` is for plain sockets only."""
    port = free_port()
    bind = f"bind 127.0.0.1:{port} ssl crt {certificates}/haproxy.pem alpn h2,http/1.1"
    text = replaced(configuration("haproxy", port, daemon, certificates), {bind: f"bind 127.0.0.1:{port}"})
    with started("haproxy", text, port, daemon, None, tmp_path) as proxy:
        test_events_of_a_stream_arrive_one_by_one(proxy, direct)


def test_frames_of_a_websocket_arrive_one_by_one(proxy, direct):
    events, times = proxy.websocket()
    expected, most = direct.websocket()
    texts = ["".join(event["delta"] for event in some if event["type"] == "response.output_text.delta") for some in (events, expected)]
    assert texts[0] == texts[1] and len(texts[0]) == NUM_TOKENS
    print(f"{proxy.kind}: {len(events)} frames at {times} times, without it {most}")
    assert times > most / 2, f"{len(events)} frames came at {times} times, without the proxy at {most}"


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_generation(proxy, daemon, stream):
    with contextlib.closing(proxy.send("POST", "/v1/completions", fields(prompt="x", max_tokens=4000, stream=stream))) as connection:
        daemon.wait_for(lambda: daemon.metric("paceline_requests_running") == 1)
        if stream:
            connection.sock.recv(1000)
    daemon.wait_until_idle()


def test_bodies_errors_and_hidden_paths(proxy):
    assert proxy.ask("POST", "/v1/completions", fields(prompt="x" * 3000, max_tokens=1))[0] == 200
    status, body = proxy.ask("POST", "/v1/completions", fields(prompt="x", temperature=9))
    assert status == 400 and json.loads(body)["error"]["param"] == "temperature"
    large = {"prompt": "x", "user": "y" * (7 << 20)}
    assert proxy.ask("POST", "/v1/completions", large)[0] in (200, 400), "below server.max_body"
    assert proxy.ask("GET", "/metrics")[0] == 404


def test_health_is_asked_for(proxy, daemon):
    if proxy.kind == "nginx":
        pytest.skip("it has no active checks")
    checks = lambda: daemon.metric("paceline_http_replies_total", endpoint="readyz", status="2xx")
    before = checks()
    daemon.wait_for(lambda: checks() > before + 3)
    assert proxy.ask("GET", "/v1/models")[0] == 200
