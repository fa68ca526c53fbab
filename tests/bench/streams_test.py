"""bench/e2e/streams.py and bench/peers with the weightless model and stand-ins for llama.cpp's programs. No figure is judged."""
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(os.environ["PACELINE_SOURCE_DIR"])
PACELINE = os.environ["PACELINE_BIN"]
TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}<assistant>"


@pytest.fixture
def talks(tmp_path):
    (tmp_path / "chat.jinja").write_text(TEMPLATE)
    rows = [{"messages": [{"role": "user", "content": f"one two {n} one two"}]} for n in range(3)]
    path = tmp_path / "talks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_streams_stand_beside_replies_in_one_piece(talks, tmp_path):
    out = tmp_path / "streams.json"
    done = subprocess.run([sys.executable, ROOT / "bench/e2e/streams.py", "--bin", PACELINE, "--model", "hash", "--chat-template",
                           tmp_path / "chat.jinja", "--workload", talks, "--together", "1", "2", "--drafters", "auto,ngram/8", "--pairs", "2",
                           "--traced-pairs", "1", "--tokens", "16", "--out", out], capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(out.read_text())
    lines, sockets = report["lines"], report["commit_to_socket"]
    assert [(li["together"], li["drafter"], li["through"]) for li in lines] == [
        (n, d, t) for n in (1, 2) for d in ("auto", "ngram/8") for t in ("http", "websocket")]
    assert done.returncode == int(any(li["verdict"] == "short" for li in lines + sockets))
    assert [(li["together"], li["drafter"]) for li in sockets] == [(n, d) for n in (1, 2) for d in ("auto", "ngram/8")]
    for line in sockets:
        shares = list(line["shares"].values())
        assert line["events"] > 0 and shares == sorted(shares) and 0 <= shares[-1] <= 1
        assert line["verdict"] == ("pass" if line["shares"]["5 ms"] >= 0.99 else "short")
        assert f"| {line['events']} | {100 * shares[0]:.1f} %" in done.stdout
    for line in lines:
        assert line["events"] == line["rounds"] > 0 and line["different_texts"] == 0 and line["pairs"] == 2
        assert 0 < line["commit_to_client_p99"] < 60
        low, high = line["interval95"]
        assert 0 < low <= line["ratio"] <= high
        assert f"{line['ratio']:.3f}" in done.stdout


BENCH = """#!/bin/sh
case "$*" in *"-n 0"*) rate={prefill};; *) rate={decode};; esac
echo "[{{\\"avg_ts\\": $rate}}]"
"""
SERVER = """#!{python}
import os, sys
port = sys.argv[sys.argv.index("--port") + 1]
slots = sys.argv[sys.argv.index("-np") + 1]
os.execv({paceline!r}, [{paceline!r}, "serve", "--model", "hash", "--port", port, "--set", "models.0.chat_template={template}",
                        "--set", "models.0.max_running=" + slots])
"""
ILLEGAL = "#!/bin/sh\nkill -ILL $$\n"


BREAKS = """#!{python}
import http.server, os, signal, sys
class Breaks(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def do_POST(self):
        os.kill(os.getpid(), signal.SIGILL)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Breaks).serve_forever()
"""


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_the_fastest_build_counts_and_a_broken_one_is_recorded(talks, tmp_path):
    peers = tmp_path / "peers"
    server = SERVER.format(python=sys.executable, paceline=PACELINE, template=tmp_path / "chat.jinja")
    for name, decode, prefill in (("llama-one", 5, 900), ("llama-two", 7, 800)):
        program(peers / name / "bin/llama-bench", BENCH.format(decode=decode, prefill=prefill))
        program(peers / name / "bin/llama-server", server)
    (peers / "lib/python3/site-packages/openvino_genai").mkdir(parents=True)
    program(peers / "bin/python", BENCH.format(decode=6, prefill=700))
    program(peers / "llama-gcc/bin/llama-bench", ILLEGAL)
    program(peers / "llama-gcc/bin/llama-server", BREAKS.format(python=sys.executable))
    ours = tmp_path / "paceline"  # with the template, which the weightless model has not
    program(ours, f'#!/bin/sh\n[ "$1" = serve ] && exec {PACELINE} "$@" --set models.0.chat_template={tmp_path}/chat.jinja\n'
                  f'exec {PACELINE} "$@"\n')
    out = tmp_path / "peers.json"
    done = subprocess.run([sys.executable, ROOT / "bench/peers/compare.py", "--model", "hash", "--what", "decode", "prefill", "streams", "lookup",
                           "--together", "1", "2", "--pairs", "2", "--tokens", "12", "--prefill-tokens", "32", "--workload", talks, "--peers",
                           peers, "--paceline", ours, "--threads", "1", "--context", "256", "--out", out], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    assert [(r["bench"], r.get("together"), r["peer"]) for r in results] == [
        ("decode", None, "llama.cpp"), ("decode", None, "OpenVINO GenAI"), ("prefill", None, "llama.cpp"), ("prefill", None, "OpenVINO GenAI"),
        ("streams", 1, "llama.cpp"), ("streams", 2, "llama.cpp"), ("lookup", 1, "llama.cpp"), ("lookup", 2, "llama.cpp")]
    decode, prefill = (next(r for r in results if r["bench"] == bench) for bench in ("decode", "prefill"))
    assert [r["theirs"] for r in results if r["peer"] == "OpenVINO GenAI"] == [6, 700]
    assert (decode["build"], decode["theirs"]) == ("two", 7) and (prefill["build"], prefill["theirs"]) == ("one", 900)
    for r in (r for r in results if r["peer"] == "llama.cpp"):
        assert "signal 4" in r["failures"]["gcc"]
        assert "gcc" not in r["runs"]
        assert r["ours"] > 0 and r["theirs"] > 0 and r["ratio_min"] <= r["ratio"] <= r["ratio_max"]
        assert all(len(runs) == 2 for runs in r["runs"].values())
    assert "the build gcc failed" in done.stdout


def test_a_client_does_not_take_half_a_reply_for_a_whole_one():
    spec = importlib.util.spec_from_file_location("load", ROOT / "bench/peers/load.py")
    load = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(load)
    import http.server
    import threading

    class Half(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n')

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Half) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(load.Broken):
            load.together(f"http://127.0.0.1:{server.server_port}", [{"messages": []}])
        server.shutdown()
