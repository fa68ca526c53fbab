"""The WebSocket endpoint with a client that knows nothing of the protocol above it."""
import json
import socket

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from daemon import open_socket

ENDINGS = ("response.completed", "response.incomplete", "response.failed")


def create(ws, **fields):
    ws.send(json.dumps({"type": "response.create", "model": "hash", "ignore_eos": True} | fields))


def events_until_end(ws, lane=None):
    events = []
    while True:
        event = json.loads(ws.recv(timeout=60))
        if lane is None or event.get("stream_id") == lane:
            events.append(event)
            if event["type"] in ENDINGS or event["type"] == "error":
                return events


def text_of(events):
    return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")


def test_lanes_interleave_and_each_is_whole(slow_daemon):
    with open_socket(slow_daemon) as ws:
        alone = []
        for i in range(3):
            create(ws, input=f"lane {i}", seed=i, max_output_tokens=30)
            alone.append(text_of(events_until_end(ws)))
        for i in range(3):
            create(ws, input=f"lane {i}", seed=i, max_output_tokens=30, stream_id=str(i))
        order, lanes, done = [], {"0": [], "1": [], "2": []}, 0
        while done < 3:
            event = json.loads(ws.recv(timeout=60))
            order.append(event["stream_id"])
            lanes[event["stream_id"]].append(event)
            done += event["type"] in ENDINGS
        assert [text_of(lanes[str(i)]) for i in range(3)] == alone
        for events in lanes.values():
            assert [e["sequence_number"] for e in events] == list(range(len(events)))
        changes = sum(a != b for a, b in zip(order, order[1:]))
        assert changes > 10, "the lanes ran one after the other"


def test_one_response_fills_a_lane(slow_daemon):
    with open_socket(slow_daemon) as ws:
        create(ws, input="long", max_output_tokens=2000, stream_id="a")
        assert json.loads(ws.recv(timeout=60))["type"] == "response.created"
        create(ws, input="second", stream_id="a")
        while (event := json.loads(ws.recv(timeout=60)))["type"] != "error":
            pass
        assert event["status"] == 409 and event["stream_id"] == "a"
        assert event["error"]["code"] == "response_already_in_flight"
    slow_daemon.wait_until_idle()


@pytest.mark.parametrize("way", ["frame", "http"])
def test_cancel_ends_a_response(slow_daemon, way):
    with open_socket(slow_daemon) as ws:
        create(ws, input="long", max_output_tokens=3000)
        response = json.loads(ws.recv(timeout=60))["response"]["id"]
        if way == "frame":
            ws.send(json.dumps({"type": "response.cancel", "response_id": response}))
        else:
            assert slow_daemon.post(f"/v1/responses/{response}/cancel", {})[2]["status"] == "cancelled"
        last = events_until_end(ws)[-1]
        assert last["response"]["status"] == "cancelled"
        assert last["response"]["usage"]["output_tokens"] < 3000
        create(ws, input="again", max_output_tokens=2)
        assert events_until_end(ws)[-1]["response"]["usage"]["output_tokens"] == 2
    slow_daemon.wait_until_idle()


def test_a_cancel_gets_in_while_events_wait_for_a_slow_reader(daemon):
    with open_socket(daemon) as ws:
        create(ws, input="long", max_output_tokens=4000, include=["message.output_text.logprobs"], top_logprobs=20)
        response = json.loads(ws.recv(timeout=60))["response"]["id"]
        for _ in range(20):  # events come faster than this client reads them
            ws.recv(timeout=60)
        ws.send(json.dumps({"type": "response.cancel", "response_id": response}))
        last = events_until_end(ws)[-1]
    assert last["response"]["status"] == "cancelled"
    assert last["response"]["usage"]["output_tokens"] < 4000


def test_a_client_that_leaves_frees_everything(slow_daemon):
    before = slow_daemon.metric("paceline_disconnect_cancels_total")
    ws = open_socket(slow_daemon)
    for lane in "abcd":
        create(ws, input="long", max_output_tokens=3000, stream_id=lane)
    slow_daemon.wait_for(lambda: slow_daemon.metric("paceline_requests_running") == 4)
    ws.socket.shutdown(socket.SHUT_RDWR)
    slow_daemon.wait_until_idle()
    assert slow_daemon.metric("paceline_disconnect_cancels_total") == before + 4


def test_positions_ids_and_rounds_are_told_when_asked(daemon):
    with open_socket(daemon) as ws:
        create(ws, input="abcabcabc", max_output_tokens=40, seed=1, temperature=0)
        predicted = text_of(events_until_end(ws))[:20]
        guess = {"prediction": {"type": "content", "content": predicted}, "speculation": {"drafter": "prediction"}}
        create(ws, input="abcabcabc", max_output_tokens=40, seed=1, temperature=0, paceline={"token_ids": True, "trace": True}, **guess)
        events = events_until_end(ws)
    deltas = [e for e in events if e["type"] == "response.output_text.delta"]
    tokens = []
    for delta in deltas:
        assert delta["token_index"] == len(tokens)
        tokens += delta["token_ids"]
    final = events[-1]["response"]
    assert tokens == final["paceline"]["token_ids"] and len(tokens) == 40
    rounds = [e["round"] for e in events if e["type"] == "paceline.round"]
    assert rounds and all(r["num_accepted"] <= len(r["draft_tokens"]) for r in rounds)
    assert [token for r in rounds for token in r["tokens"]] == tokens
    for before, r in zip([{"end_us": 0}] + rounds, rounds):
        assert before["end_us"] <= r["start_us"] < r["end_us"]
        assert len(r["draft_texts"]) == len(r["draft_tokens"]) and len(r["token_texts"]) == len(r["tokens"])
        assert ("draft_start_us" in r) == bool(r["draft_tokens"])
        if r["draft_tokens"]:
            assert r["draft_start_us"] <= r["draft_end_us"] <= r["start_us"]
    assert any(r["draft_tokens"] for r in rounds)
    spans_ms = (rounds[-1]["end_us"] - rounds[0]["start_us"]) / 1000
    assert spans_ms <= final["metrics"]["time_to_first_token_ms"] + final["metrics"]["generation_time_ms"]
    assert final["metrics"]["explanation"].startswith("prediction could draft in ")


def test_a_resumable_response_goes_on_where_the_client_stopped(slow_daemon):
    options = dict(input="resume me", seed=4, max_output_tokens=120, stream_id="r")
    with open_socket(slow_daemon) as ws:
        create(ws, **options)
        whole = text_of(events_until_end(ws))
    ws = open_socket(slow_daemon)
    create(ws, **options, paceline={"resumable": True, "token_ids": True})
    text, seen, response = "", 0, None
    while seen < 20:
        event = json.loads(ws.recv(timeout=60))
        response = response or event["response"]["id"]
        if event["type"] == "response.output_text.delta":
            text += event["delta"]
            seen = event["token_index"] + len(event["token_ids"])
    ws.socket.shutdown(socket.SHUT_RDWR)
    with open_socket(slow_daemon) as ws:
        create(ws, stream_id="r", paceline={"resume": {"response_id": response, "next_token": seen}})
        events = events_until_end(ws)
    assert events[0]["token_index"] == seen
    assert text + text_of(events) == whole
    slow_daemon.wait_until_idle()


def test_a_client_that_does_not_read_is_held_back_and_then_closed(start_daemon):
    daemon = start_daemon(**{"server.send_timeout": "2s", "server.send_buffer": "16KiB", "models.0.context_length": 1000000})
    closed = daemon.metric("paceline_stalled_closes_total")
    raw = socket.create_connection((daemon.host, daemon.port))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with open_socket(daemon, sock=raw, max_queue=1) as ws:
        create(ws, input="x", max_output_tokens=900000)
        daemon.wait_for(lambda: daemon.metric("paceline_flow_pauses_total") > 0)
        generated = daemon.metric("paceline_generation_tokens_total")
        # Held back: what runs on is bounded by credit and buffers, and others are served meanwhile.
        assert daemon.post("/v1/completions", {"prompt": "y", "max_tokens": 5})[0] == 200
        daemon.wait_for(lambda: daemon.metric("paceline_stalled_closes_total") == closed + 1)
        assert daemon.metric("paceline_generation_tokens_total") < generated + 5000
        daemon.wait_until_idle()


def test_a_client_whose_messages_wait_until_it_reads_is_not_called_idle(start_daemon):
    """Nothing is read from it meanwhile, no pong either, so only the time limit for reading output may close it."""
    daemon = start_daemon(**{"server.idle_timeout": "2s", "server.send_timeout": "5s"})
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect((daemon.host, daemon.port))
    with open_socket(daemon, sock=raw, max_queue=1, close_timeout=1) as ws:
        for _ in range(10000):  # all the errors do not fit into the buffers of the sockets
            ws.send("{}")
        daemon.wait_for(lambda: daemon.metric("paceline_websocket_connections_active") == 0)
        assert daemon.metric("paceline_stalled_closes_total") == 1


def test_foreign_pages_are_refused(daemon):
    with pytest.raises(InvalidStatus) as refused:
        open_socket(daemon, origin="https://evil.example")
    assert refused.value.response.status_code == 403
    with open_socket(daemon, origin=f"http://localhost:{daemon.port}") as ws:
        create(ws, input="x", max_output_tokens=1)
        events_until_end(ws)


def close_code(ws):
    try:
        while True:
            ws.recv(timeout=30)
    except ConnectionClosed as closed:
        return closed.rcvd.code


def test_close_codes(slow_daemon):
    with open_socket(slow_daemon) as ws:
        ws.send(b"\x00\x01")
        assert close_code(ws) == 1003
    with open_socket(slow_daemon) as ws:
        ws.send("x" * 70000)
        assert close_code(ws) == 1009


def test_bad_frames_are_errors_and_the_connection_goes_on(daemon):
    with open_socket(daemon) as ws:
        for text in ("x", "{}", '{"type":"response.steer"}', '{"type":"response.create","input":"x","stream":false}', "[" * 10000):
            ws.send(text)
            event = json.loads(ws.recv(timeout=30))
            assert event["type"] == "error" and event["status"] == 400
        create(ws, input="x", max_output_tokens=1)
        assert events_until_end(ws)[-1]["type"] in ENDINGS


def test_a_drain_that_has_ended_fails_what_runs_and_closes_with_1001(start_daemon):
    daemon = start_daemon(**{"shutdown.drain_timeout": "100ms", "models.0.hash.pass_work": 20000000})
    with open_socket(daemon) as ws:
        create(ws, input="x", max_output_tokens=2000)
        daemon.wait_for(lambda: daemon.metric("paceline_requests_running") == 1)
        daemon.terminate()
        last = events_until_end(ws)[-1]
        assert last["type"] == "response.failed" and last["response"]["error"]["paceline_code"] == "draining"
        assert close_code(ws) == 1001
    assert daemon.stop() == 0


def test_draining_lets_lanes_finish_and_closes_with_1001(start_daemon):
    daemon = start_daemon(**{"models.0.hash.pass_work": 1000000})
    with open_socket(daemon) as ws, open_socket(daemon) as idle:
        create(ws, input="x", max_output_tokens=200)
        assert json.loads(ws.recv(timeout=30))["type"] == "response.created"
        daemon.terminate()
        assert close_code(idle) == 1001
        assert events_until_end(ws)[-1]["response"]["usage"]["output_tokens"] == 200
        assert close_code(ws) == 1001
    assert daemon.stop() == 0


def test_conversations_of_all_connections_share_one_budget(start_daemon):
    """Each connection is within its own bound; the first conversations give way to the last."""
    daemon = start_daemon(**{"server.kept_memory": "1MiB", "models.0.context_length": 32768})
    sockets, ids = [], []
    for i in range(8):
        ws = open_socket(daemon)
        for _ in range(8):
            create(ws, input="x" * 20_000, max_output_tokens=1)  # one prompt, which the prefix cache holds
            last = events_until_end(ws)[-1]["response"]["id"]
        ids.append(last)
        sockets.append(ws)
    assert daemon.metric("paceline_kept_bytes") <= 1 << 20
    assert daemon.metric("paceline_kept_evictions_total") >= 8
    codes = []
    for ws, previous in zip(sockets, ids):
        create(ws, input="y", previous_response_id=previous, max_output_tokens=1)
        last = events_until_end(ws)[-1]
        codes.append(last["error"]["code"] if last["type"] == "error" else "kept")
        ws.close()
    assert codes[0] == "previous_response_not_found" and codes[-1] == "kept", codes


def test_resumable_responses_that_nobody_reads_share_it_too(start_daemon):
    daemon = start_daemon(**{"server.kept_memory": "1MiB", "models.0.context_length": 16384})
    ids = []
    for i in range(6):
        with open_socket(daemon) as ws:
            create(ws, input="x", max_output_tokens=4000, paceline={"resumable": True})
            ids.append(events_until_end(ws)[-1]["response"]["id"])
    daemon.wait_for(lambda: daemon.metric("paceline_kept_evictions_total") >= 1)
    assert daemon.metric("paceline_kept_bytes") <= 1 << 20
    assert daemon.get(f"/v1/responses/{ids[0]}")[0] == 404
    assert daemon.get(f"/v1/responses/{ids[-1]}")[0] == 200


def test_a_page_sends_its_key_as_a_sub_protocol(start_daemon, tmp_path):
    """As OpenAI's browser clients do: pages cannot set the headers of a WebSocket."""
    keys = tmp_path / "keys"
    keys.write_text("sk-one\nsk-other\n")
    daemon = start_daemon(**{"server.api_keys_file": str(keys)})

    def offering(*names, **options):
        return open_socket(daemon, subprotocols=list(names), **options)

    with offering("realtime", "openai-insecure-api-key.sk-one", "openai-beta.realtime-v1", origin="http://localhost:3000") as ws:
        assert ws.subprotocol == "realtime"
        create(ws, input="one", max_output_tokens=2)
        mine = events_until_end(ws)[-1]["response"]["id"]
    with offering("openai-insecure-api-key.sk-other", "openai") as ws:
        assert ws.subprotocol == "openai"
        create(ws, input="two", previous_response_id=mine, max_output_tokens=2)
        assert events_until_end(ws)[-1]["error"]["code"] == "previous_response_not_found", "another key"
    with offering("openai-insecure-api-key.sk-one") as ws:
        assert ws.subprotocol is None, "the key is never repeated"
    refused = [
        ({"subprotocols": ["realtime", "openai-insecure-api-key.sk-two"]}, 401),
        ({"subprotocols": ["realtime"]}, 401),
        ({"subprotocols": ["realtime", "openai-insecure-api-key.sk-one"], "additional_headers": {"Authorization": "Bearer wrong"}}, 401),
        ({"subprotocols": ["realtime", "openai-insecure-api-key.sk-one"], "origin": "https://evil.example"}, 403),
    ]
    for options, status in refused:
        with pytest.raises(InvalidStatus) as failure:
            open_socket(daemon, **options)
        assert failure.value.response.status_code == status
