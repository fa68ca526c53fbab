"""The same client for every OpenAI-compatible server: streamed chat completions over HTTP/1.1, by the
client's own clock. Standard library only."""
import http.client
import json
import statistics
import threading
import time
import urllib.parse


class Broken(RuntimeError):
    """A reply that does not match its request."""


def ask(url, body):
    """Times of one streamed request, in seconds from its first byte; tokens as the server's usage counts them."""
    address = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=600)
    connection.connect()  # before the clock starts
    text, first, last, usage, finish, done = "", None, None, None, None, False
    payload = json.dumps(body | {"stream": True, "stream_options": {"include_usage": True}}).encode()
    sent = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", payload, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if reply.status != 200:
        raise Broken(f"{url}: {reply.status} {reply.read()[:300]!r}")
    for line in reply:
        now = time.perf_counter()
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            done = True
            continue
        event = json.loads(data)
        if "error" in event:
            raise Broken(f"{url}: {event['error']}")
        usage = event.get("usage") or usage
        for choice in event.get("choices", []):
            content = (choice.get("delta") or {}).get("content")
            if content:
                first, last, text = first or now, now, text + content
            finish = choice.get("finish_reason") or finish
    ended = time.perf_counter()
    connection.close()
    if not (done and usage and finish in ("stop", "length") and first):
        raise Broken(f"{url}: a reply without {'an end' if not done else 'usage' if not usage else 'a reason or a text'}")
    return {"sent": sent, "first": first - sent, "last": last - sent, "seconds": ended - sent, "ended": ended,
            "tokens": usage["completion_tokens"], "text": text}


def together(url, bodies):
    """Sends all requests at the same time. Returns tokens a second from the first byte of the first request to
    the end of the last reply, and those of decoding alone."""
    results = [None] * len(bodies)

    def work(i):
        try:
            results[i] = ask(url, bodies[i])
        except Exception as failure:  # the waiting thread reports it
            results[i] = failure

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    wall = max(r["ended"] for r in results) - min(r["sent"] for r in results)
    # The first event may contain several tokens of a draft. One token is subtracted, as for plain decoding.
    decode = sum((r["tokens"] - 1) / (r["last"] - r["first"]) for r in results if r["tokens"] > 1 and r["last"] > r["first"])
    return {"tokens_per_second": sum(r["tokens"] for r in results) / wall, "decode_tokens_per_second": decode,
            "first_token_seconds": statistics.median(r["first"] for r in results), "texts": [r["text"] for r in results]}
