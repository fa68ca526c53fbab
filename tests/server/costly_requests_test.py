"""What one request may cost: memory that stays bounded whatever its fields, work that stays bounded by the context."""
import http.client
import json
import socket
import threading
import time

import pytest

MIB = 1 << 20
BOUND = 64 * MIB


@pytest.fixture
def roomy(start_daemon):
    """A fast model; the peak of its memory is measured from where it stands idle."""
    running = start_daemon(**{"models.0.context_length": 4096})
    status, _, _ = running.post("/v1/completions", {"prompt": "warm", "max_tokens": 4})
    assert status == 200
    return running


def memory(daemon, field):
    for line in open(f"/proc/{daemon.process.pid}/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)


class Peak:
    """Highest resident memory of the daemon above where it stood, while the block runs."""

    def __init__(self, daemon):
        self.daemon = daemon

    def __enter__(self):
        self.daemon.wait_until_idle()
        self.before = memory(self.daemon, "VmRSS")
        with open(f"/proc/{self.daemon.process.pid}/clear_refs", "w") as clear:
            clear.write("5")  # the peak counts from here
        return self

    def __exit__(self, *_):
        self.bytes = memory(self.daemon, "VmHWM") - self.before


def read_whole(daemon, path, body):
    """Status, number of bytes and text of both ends of a reply that need not fit here."""
    connection = http.client.HTTPConnection(daemon.host, daemon.port, timeout=120)
    result = read_reply(connection, "POST", path, body if isinstance(body, str) else json.dumps(body))
    connection.close()
    return result


def read_reply(connection, method, path, body=None):
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    reply = connection.getresponse()
    first = last = b""
    count = 0
    while piece := reply.read(MIB):
        first = first or piece[:200]
        last = (last + piece)[-400:]
        count += len(piece)
    return reply, count, first, last


BODY_BYTES = 8 * MIB - 4096
ZEROS = "0," * (BODY_BYTES // 2) + "0"
COSTLY = {
    "a prediction of ids": '{"prompt":"x","max_tokens":2,"n":128,"prediction":{"type":"content","content":[%s]}}' % ZEROS,
    "a prediction of text": '{"prompt":"x","max_tokens":2,"n":128,"prediction":{"type":"content","content":"%s"}}' % ("ab c" * (BODY_BYTES // 4)),
    "a prompt of ids": '{"prompt":[%s],"max_tokens":2}' % ZEROS,
    "a prompt of text": '{"prompt":"%s","max_tokens":2}' % ("word " * (BODY_BYTES // 5)),
    "values nobody reads": '{"prompt":"x","max_tokens":2,"unknown":[%s]}' % ZEROS,
    "names nobody reads": '{"prompt":"x","max_tokens":2%s}' % "".join(f',"{i:x}":0' for i in range(BODY_BYTES // 10)),
    "biases": '{"prompt":"x","max_tokens":2,"n":128,"logit_bias":{%s}}' % ",".join(f'"{i % 256}":1' for i in range(BODY_BYTES // 9)),
    "messages of small parts": '{"messages":[{"role":"user","content":[%s]}],"max_tokens":2}'
    % ",".join(['{"type":"text","text":"a"}'] * (BODY_BYTES // 27)),
    "tools of small values": '{"messages":[{"role":"user","content":"x"}],"max_tokens":2,"tools":[{"type":"function","function":{"name":"f","parameters":{"x":[%s]}}}]}'
    % ZEROS,
    "arguments of small values": '{"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\\"x\\":[%s]}"}}]}],"max_tokens":2}'
    % ZEROS,
    "a response of long input": '{"input":"%s","max_output_tokens":2}' % ("word " * (BODY_BYTES // 5)),
    "text to tokenize": '{"prompt":"%s","return_token_strs":true}' % ("word " * (BODY_BYTES // 5)),
    "text of short words to tokenize": '{"prompt":"%s"}' % ("a " * (BODY_BYTES // 2)),
    "ids to detokenize": '{"tokens":[%s]}' % ZEROS,
    "long tokens to detokenize": '{"tokens":[%s]}' % ",".join(["255"] * (BODY_BYTES // 4)),
}


def path_of(name, body):
    if name.endswith("tokenize"):
        return "/detokenize" if name.endswith("detokenize") else "/tokenize"
    if name.startswith("a response"):
        return "/v1/responses"
    return "/v1/chat/completions" if '"messages"' in body[:20] else "/v1/completions"


@pytest.mark.parametrize("name", COSTLY)
def test_one_request_of_eight_mebibytes_costs_at_most_64(roomy, name):
    with Peak(roomy) as peak:
        reply, _, first, _ = read_whole(roomy, path_of(name, COSTLY[name]), COSTLY[name])
    assert reply.status in (200, 400), first
    assert reply.status == 200 or "detokenize" not in name, first
    assert peak.bytes <= BOUND, f"{name}: {peak.bytes / MIB:.0f} MiB"


def test_a_template_reaches_its_own_bound_before_the_one_on_values_of_tools(roomy):
    """A template that writes its tools would refuse everything that the bound of 400,000 refuses."""
    tool = '{"type":"function","function":{"name":"f","parameters":{"x":[%s]}}}'
    refusals = []
    for count in (350_000, 400_000):
        body = '{"messages":[{"role":"user","content":"x"}],"tools":[%s]}' % (tool % ",".join(["0"] * count))
        with Peak(roomy) as peak:
            status, _, reply = roomy.post("/tokenize", body.encode())
        assert status == 400 and peak.bytes <= BOUND, peak.bytes / MIB
        refusals.append(reply["error"]["message"])
    assert "chat template" in refusals[0] and "1048576" in refusals[0], refusals
    assert "400000 values" in refusals[1], refusals


MANY_SCORES = {
    "messages": [{"role": "user", "content": "x"}],
    "n": 128,
    "max_tokens": 200,
    "logprobs": True,
    "top_logprobs": 20,
    "ignore_eos": True,
}


class Unread:
    """Connections that send one request each and take nothing of what comes."""

    def __init__(self, daemon, path, body, count, one_by_one=False):
        self.connections = []
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        for _ in range(count):
            connection = socket.create_connection((daemon.host, daemon.port), timeout=60)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            try:
                connection.sendall(head.encode() + data)
            except OSError:  # it had to give way already
                pass
            self.connections.append(connection)
            if one_by_one:
                connection.recv(1, socket.MSG_PEEK)

    def wait_for_answers(self, patience=60):
        """The number of those whose reply has begun: 200, and its first bytes are left where they are."""
        end, count = time.monotonic() + patience, 0
        for connection in self.connections:
            connection.settimeout(max(0.1, end - time.monotonic()))
            try:
                count += connection.recv(15, socket.MSG_PEEK).startswith(b"HTTP/1.1 200")
            except OSError:
                pass
        return count

    def close(self):
        for connection in self.connections:
            connection.close()


def test_unread_conversions_share_one_budget_and_readers_get_theirs(start_daemon):
    """A list of ids of 2 MiB made a list of 4 MiB, which stayed until the client had taken the reply: 60 of them 240 MiB."""
    daemon = start_daemon(**{"server.output_memory": "16MiB"})
    body = b'{"tokens":[%s]}' % (b"0," * (MIB - 100) + b"0")
    with Peak(daemon) as peak:
        unread = Unread(daemon, "/detokenize", body, 60, one_by_one=True)
        # Who reads gets all of it, among those who do not.
        reply, size, _, last = read_whole(daemon, "/detokenize", body.decode())
        assert reply.status == 200 and size > 2 * MIB and last.endswith(b'"}')
    assert daemon.metric("paceline_outputs_given_up_total") >= 30
    unread.close()
    # 16 MiB of output; on each of two edge threads a body and its list, 6 MiB; what the heap keeps of 60 connections.
    assert peak.bytes <= 64 * MIB, f"{peak.bytes / MIB:.0f} MiB"


def test_unread_replies_of_log_probabilities_share_one_budget(start_daemon):
    """Complete, they are out of the engine's places: as many as there were connections stayed, 2 MiB each here."""
    daemon = start_daemon(**{"models.0.context_length": 4096, "server.output_memory": "8MiB"})
    request = MANY_SCORES | {"n": 8, "max_tokens": 1600}
    with Peak(daemon) as peak:
        unread = Unread(daemon, "/v1/chat/completions", request, 24)
        unread.wait_for_answers()
        daemon.wait_until_idle()
        reply, size, _, last = read_whole(daemon, "/v1/chat/completions", request)
        assert reply.status == 200 and size > 10 * MIB and last.endswith(b"}")
    assert daemon.metric("paceline_outputs_given_up_total") >= 12
    unread.close()
    assert peak.bytes <= 32 * MIB, f"{peak.bytes / MIB:.0f} MiB"


def test_an_unread_stream_of_echoed_prompts_pauses(roomy):
    """Scores of prompts are not tokens of credit: all prompts were scored, 119 MiB of them."""
    prompts = [[1] * 4000] * 256
    body = {"prompt": prompts, "max_tokens": 1, "logprobs": 5, "echo": True, "stream": True}
    with Peak(roomy) as peak:
        unread = Unread(roomy, "/v1/completions", body, 1)
        assert unread.wait_for_answers() == 1
        paused = [0.0]
        def at_rest():  # no further prompt token
            paused.append(roomy.metric("paceline_prompt_tokens_total"))
            return paused[-1] == paused[-2] > 0
        roomy.wait_for(at_rest)
    unread.close()
    roomy.wait_until_idle()
    assert peak.bytes <= 32 * MIB, f"{peak.bytes / MIB:.0f} MiB"
    few = body | {"prompt": [[1] * 40] * 30}
    reply, _, _, last = read_whole(roomy, "/v1/completions", few)
    assert reply.status == 200 and last.endswith(b"data: [DONE]\n\n"), last


def test_a_reply_of_many_log_probabilities_is_sent_in_pieces(roomy):
    with Peak(roomy) as peak:
        reply, size, first, last = read_whole(roomy, "/v1/chat/completions", MANY_SCORES)
    assert reply.status == 200
    assert reply.getheader("Content-Type") == "application/json"
    assert reply.getheader("Transfer-Encoding") == "chunked"
    assert size > 20 * MIB
    assert first.startswith(b'{"id":"chatcmpl-') and b'"completion_tokens":25600' in last and last.endswith(b"}")
    assert peak.bytes <= BOUND, f"{peak.bytes / MIB:.0f} MiB"


def test_replies_that_nobody_reads_wait_in_their_compact_form(roomy):
    request = json.dumps(MANY_SCORES | {"max_tokens": 100}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with Peak(roomy) as peak:
        unread = []
        for _ in range(3):
            connection = socket.create_connection((roomy.host, roomy.port))
            connection.sendall(head % len(request) + request)
            unread.append(connection)
        for connection in unread:
            connection.recv(1)  # the reply has begun: all was generated
    for connection in unread:
        connection.close()
    assert peak.bytes <= BOUND, f"{peak.bytes / MIB:.0f} MiB"


def test_a_long_reply_is_the_one_that_a_stream_adds_up_to(roomy):
    body = {"prompt": "x", "n": 3, "max_tokens": 1500, "logprobs": 5, "seed": 5, "ignore_eos": True, "return_token_ids": True}
    connection = http.client.HTTPConnection(roomy.host, roomy.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    whole = json.loads(reply.read())
    assert reply.getheader("Transfer-Encoding") == "chunked"
    # The connection goes on.
    connection.request("POST", "/v1/completions", json.dumps(body | {"stream": True}), {"Content-Type": "application/json"})
    ids, offsets = {0: [], 1: [], 2: []}, {0: [], 1: [], 2: []}
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                ids[choice["index"]] += choice["token_ids"]
                offsets[choice["index"]] += choice["logprobs"]["text_offset"]
    for choice in whole["choices"]:
        assert choice["token_ids"] == ids[choice["index"]]
        assert choice["logprobs"]["text_offset"] == offsets[choice["index"]]
        assert len(choice["logprobs"]["top_logprobs"]) == 1500


def test_what_many_choices_may_keep_is_bounded_and_few_are_never_refused(roomy):
    status, _, reply = roomy.post("/v1/chat/completions", MANY_SCORES | {"max_tokens": 4000})
    assert status == 400 and reply["error"]["param"] == "n", reply
    for word in ("max_tokens", "log-probabilities", "stream", "6000000"):
        assert word in reply["error"]["message"]


def test_long_prompts_do_not_delay_small_requests(roomy):
    body = ('{"prompt":"%s","max_tokens":1}' % ("lorem ipsum " * (BODY_BYTES // 12))).encode()
    statuses = []
    senders = [threading.Thread(target=lambda: statuses.append(roomy.post("/v1/completions", body)[0])) for _ in range(12)]
    for sender in senders:
        sender.start()
    slowest = 0.0
    while any(sender.is_alive() for sender in senders):
        begin = time.monotonic()
        assert roomy.post("/v1/completions", {"prompt": "x", "max_tokens": 1})[0] == 200
        slowest = max(slowest, time.monotonic() - begin)
    assert statuses == [400] * 12
    assert slowest < 5, slowest  # a busy machine; unbounded work took 36 s on an idle one


LONG_RESPONSE = {"input": "x", "top_logprobs": 20, "include": ["message.output_text.logprobs"], "ignore_eos": True, "max_output_tokens": 30000}


@pytest.fixture
def long_winded(start_daemon):
    """A context that holds a response whose final events have 50 MiB each."""
    running = start_daemon(**{"models.0.context_length": 32768})
    status, _, _ = running.post("/v1/completions", {"prompt": "warm", "max_tokens": 4})
    assert status == 200
    return running


def last_event_of(stream):
    """The data of the last event of an event stream, which is read to its end, and the number of its bytes."""
    count, last = 0, b""
    for line in stream:
        count += len(line)
        if line.startswith(b"data: {"):
            last = line[6:]
    return json.loads(last), count


@pytest.mark.parametrize("resumable", [False, True])
def test_final_events_of_a_long_response_share_what_they_repeat(long_winded, resumable):
    body = json.dumps(LONG_RESPONSE | {"stream": True, "paceline": {"resumable": resumable}})
    connection = http.client.HTTPConnection(long_winded.host, long_winded.port, timeout=120)
    with Peak(long_winded) as peak:
        connection.request("POST", "/v1/responses", body, {"Content-Type": "application/json"})
        event, size = last_event_of(connection.getresponse())
    assert event["type"] == "response.incomplete"
    assert size > 100 * MIB
    part = event["response"]["output"][0]["content"][0]
    assert len(part["logprobs"]) == 30000 and len(part["text"]) > 10000
    assert peak.bytes <= BOUND, f"{peak.bytes / MIB:.0f} MiB"
    if resumable:
        with Peak(long_winded) as peak:
            reply, size, first, last = read_reply(connection, "GET", f"/v1/responses/{event['response']['id']}")
        assert reply.status == 200 and size > 30 * MIB and last.endswith(b"}")
        assert peak.bytes <= BOUND, f"{peak.bytes / MIB:.0f} MiB"
        reply, size, _, _ = read_reply(connection, "HEAD", f"/v1/responses/{event['response']['id']}")
        assert reply.status == 200 and size == 0
    # The connection goes on.
    assert read_reply(connection, "GET", "/livez")[0].status == 200
    connection.close()


def test_a_long_response_that_is_not_streamed_is_sent_in_pieces(long_winded):
    with Peak(long_winded) as peak:
        reply, size, first, last = read_whole(long_winded, "/v1/responses", LONG_RESPONSE)
    assert reply.status == 200 and size > 30 * MIB
    assert first.startswith(b'{"id":"resp_') and last.endswith(b"}")
    assert peak.bytes <= BOUND, f"{peak.bytes / MIB:.0f} MiB"


def test_a_long_response_over_a_web_socket_costs_no_more(long_winded):
    client = pytest.importorskip("websockets.sync.client")
    with Peak(long_winded) as peak:
        with client.connect(f"ws://{long_winded.host}:{long_winded.port}/v1/responses", max_size=None) as socket_:
            socket_.send(json.dumps({"type": "response.create"} | LONG_RESPONSE))
            while True:
                text = socket_.recv(timeout=120)
                if text.startswith('{"type":"response.incomplete"'):
                    break
        assert len(json.loads(text)["response"]["output"][0]["content"][0]["logprobs"]) == 30000
    assert peak.bytes <= BOUND, f"{peak.bytes / MIB:.0f} MiB"
