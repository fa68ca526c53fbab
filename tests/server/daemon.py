"""Starts the real daemon over the weightless model, for outside clients to test."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

CHAT_TEMPLATE = """{%- for message in messages -%}
<{{ message.role }}>{{ message.content }}
{%- for call in message.tool_calls or [] %}[{{ call.function.name }}({{ call.function.arguments | tojson }})]{% endfor -%}
{%- endfor -%}
{%- if tools %}{{ tools | tojson }}{% endif -%}
{%- if add_generation_prompt %}<assistant>{% endif -%}
"""
HASH_MODEL = """  - name: hash
    aliases: [other-name]
    kind: hash
    context_length: 4096
    chat_template: {template}
    default_drafter: lookup
    drafters:
      - {{name: lookup, kind: ngram}}
"""


class Daemon:
    """One `paceline serve`; `overrides` are paths of options with their values, `sections` YAML of the file.

    `tls`: the context of clients, where the daemon speaks TLS. `models`: YAML of the models instead of the hash model.
    """

    def __init__(self, folder: pathlib.Path, sections="", environment={}, stderr=subprocess.PIPE, tls=None, models=None, **overrides):
        self.tls = tls
        self.models = models
        self.template = folder / "chat.jinja"
        self.template.write_text(CHAT_TEMPLATE)
        self.config = folder / "daemon.yaml"
        self.configure(sections)
        settings = {"server.port": 0, "metrics.vllm_names": "true", "engine.threads": 1} | overrides
        command = [os.environ["PACELINE_BIN"], "serve", "--config", str(self.config)]
        for path, value in settings.items():
            command += ["--set", f"{path}={value}"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=os.environ | environment
        )
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(line + (self.process.stderr.read() if stderr == subprocess.PIPE else ""))
        self.terminated = False
        self.url = line.split()[-1]
        host, port = self.url.split("://")[1].rsplit(":", 1)
        self.host, self.port = host, int(port)

    def configure(self, sections):
        """Writes the file: the model, and `sections`. In one step, for the daemon may read it at any time."""
        fresh = self.config.with_suffix(".new")
        fresh.write_text(
            "version: 1\n"
            "models:\n"
            + (self.models or HASH_MODEL.format(template=self.template))
            + sections
        )
        os.replace(fresh, self.config)

    def reload(self):
        """SIGHUP; returns once the daemon has read its file again."""
        before = self.metric("paceline_config_reloads_total")
        self.process.send_signal(signal.SIGHUP)
        self.wait_for(lambda: self.metric("paceline_config_reloads_total") == before + 1)

    def terminate(self):
        """Asks it to drain; a second signal would end it at once."""
        if not self.terminated:
            self.process.send_signal(signal.SIGTERM)
        self.terminated = True

    def stop(self):
        self.terminate()
        self.process.communicate(timeout=30)
        return self.process.returncode

    def get(self, path, headers={}):
        """Status, headers and text of a GET."""
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.tls) as reply:
                return reply.status, reply.headers, reply.read().decode()
        except urllib.error.HTTPError as reply:
            return reply.code, reply.headers, reply.read().decode()

    def post(self, path, body, headers={}):
        """Status, headers and JSON of a POST."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"} | headers)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.tls) as reply:
                return reply.status, reply.headers, json.loads(reply.read())
        except urllib.error.HTTPError as reply:
            return reply.code, reply.headers, json.loads(reply.read())

    def connect(self):
        """A raw socket, without TLS."""
        return socket.create_connection((self.host, self.port), timeout=30)

    def metric(self, name, **labels):
        """Sum over the samples of a metric that carry these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        total = 0.0
        for line in self.get("/metrics")[2].splitlines():
            head, _, value = line.rpartition(" ")
            if head.split("{")[0] == name and all(label in head for label in wanted):
                total += float(value)
        return total

    def wait_for(self, condition, seconds=20):
        """Polls an outside process: there is no event to wait for."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "the daemon never got there"
            time.sleep(0.02)

    def wait_until_idle(self):
        self.wait_for(
            lambda: self.metric("paceline_requests_running") == 0
            and self.metric("paceline_open_requests") == 0
            and self.metric("paceline_kv_blocks", state="active") == 0
        )


def read_reply(connection):
    """One HTTP reply from a raw socket: status, headers in lower case, body. None if the peer closed first."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    headers = {key.lower(): value for key, value in headers.items()}
    if "content-length" in headers:
        while len(body) < int(headers["content-length"]):
            body += connection.recv(65536)
    return int(lines[0].split()[1]), headers, body


def socket_of(daemon):
    """The URL of WebSockets to /v1/responses, and the options of `connect` for it."""
    tls = {"ssl": daemon.tls, "server_hostname": "localhost"} if daemon.tls else {}
    return daemon.url.replace("http", "ws", 1) + "/v1/responses", {"max_size": None, "compression": None} | tls


def open_socket(daemon, **options):
    """A WebSocket to /v1/responses."""
    from websockets.sync.client import connect

    url, needed = socket_of(daemon)
    return connect(url, **needed, **options)


def is_closed(connection):
    """True once the peer has closed; reads what is left."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True
