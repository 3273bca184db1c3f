"""A small server of the OpenAI protocol on 127.0.0.1 that does what a test tells it to.

It also streams in Anthropic's protocol, at ``/v1/messages``.

::

    with serving(lambda request: says("Idea\\n...")) as server:
        model = {"name": "openai/test", "api_base": server.url, "price": {"in": 1, "out": 2}}

A script is called with each request, in any thread, and gives what is sent back.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Chunk = dict[str, Any]
WAIT_S = 20.0


@dataclass(frozen=True)
class Request:
    """What came in: ``number`` counts the calls from 0."""

    number: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def system(self) -> str:
        return self._part("system")

    @property
    def user(self) -> str:
        return self._part("user")

    def _part(self, role: str) -> str:
        texts = []
        for message in self.body["messages"]:
            if message["role"] == role:
                content = message["content"]
                blocks = [content] if isinstance(content, str) else [b["text"] for b in content]
                texts += blocks
        return "\n".join(texts)


@dataclass(frozen=True)
class Says:
    """A reply: what it says, how it is sent, and what goes wrong on the way.

    Attributes:
        pieces: The text, in the pieces in which it is streamed.
        thinking: Sent first, as ``channel`` (``reasoning_content`` or ``reasoning``).
        finish: None sends no end, as if the connection had been closed in order.
        usage: ``end`` (a chunk of its own), ``inside`` (in the last chunk with choices), ``none``.
        drop: The connection is broken after the pieces.
        gate: Waited for before the first piece, or before the second if ``late``.
        error: Sent within the stream, instead of an end.
    """

    pieces: tuple[str, ...]
    thinking: tuple[str, ...] = ()
    channel: str = "reasoning_content"
    finish: str | None = "stop"
    usage: str = "end"
    tokens: tuple[int, int] = (100, 50)
    cached: int = 0
    reasoning: int = 0
    refusal: str = ""
    drop: bool = False
    gate: threading.Event | None = None
    late: bool = False
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Fails:
    """An HTTP status with a body."""

    status: int
    error: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


Script = Callable[[Request], "Says | Fails"]


def says(*pieces: str, **how: Any) -> Says:
    return Says(pieces, **how)


def fails(
    status: int, message: str = "it failed", headers: Mapping[str, str] | None = None, **more: Any
) -> Fails:
    return Fails(status, {"error": {"message": message, **more}}, headers or {})


def in_turn(*steps: Says | Fails) -> Script:
    """One after another; the last again and again."""
    return lambda request: steps[min(request.number, len(steps) - 1)]


@dataclass
class Server:
    """``requests`` are the calls that came in, oldest first."""

    url: str
    requests: list[Request] = field(default_factory=list)
    models: list[str] = field(default_factory=lambda: ["test"])

    def model(self, name: str = "openai/test", **more: Any) -> dict[str, Any]:
        """An item of a session's ``models``, at a dollar and two for a million tokens."""
        price = {"in": 1.0, "out": 2.0}
        return {"name": name, "api_base": self.url, "price": price, **more}


@contextlib.contextmanager
def serving(script: Script) -> Iterator[Server]:
    """A server for the length of the block."""
    closing = threading.Event()
    lock = threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

        def do_GET(self) -> None:
            data = {"object": "list", "data": [{"id": name} for name in server.models]}
            self._whole(200 if self.path == "/v1/models" else 404, data, {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            claude = self.path == "/v1/messages"
            if self.path != "/v1/chat/completions" and not claude:
                self._whole(404, {"detail": "Not Found"}, {})
                return
            with lock:
                request = Request(len(server.requests), body, dict(self.headers.items()))
                server.requests.append(request)
            step = script(request)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                if isinstance(step, Fails):
                    self._whole(step.status, step.error, step.headers)
                elif claude:
                    self._stream(step, _messages(step))
                elif body.get("stream"):
                    counts = (body.get("stream_options") or {}).get("include_usage", False)
                    self._stream(step, _chunks(step, counts))
                else:
                    _wait(step.gate, closing)
                    self._whole(200, whole(step), {})

        def _whole(self, status: int, data: Any, headers: Mapping[str, str]) -> None:
            text = data if isinstance(data, str) else json.dumps(data)
            self.send_response(status)
            plain = isinstance(data, str)
            self.send_header("Content-Type", "text/html" if plain else "application/json")
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def _stream(self, step: Says, chunks: Iterator[Chunk]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for number, chunk in enumerate(chunks):
                if number == (2 if step.late else 1):
                    _wait(step.gate, closing)
                kind = f"event: {chunk['type']}\n" if "type" in chunk else ""
                self._send(f"{kind}data: {json.dumps(chunk)}\n\n".encode())
            if step.drop:
                self.close_connection = True
                self.connection.shutdown(2)
                return
            if step.finish is not None and step.error is None:
                self._send(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def _send(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

    class Listener(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """Clients go away in these tests."""

    listener = Listener(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{listener.server_address[1]}/v1")
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        closing.set()
        listener.shutdown()
        listener.server_close()
        thread.join()


def _wait(gate: threading.Event | None, closing: threading.Event) -> None:
    if gate is None:
        return
    for _ in range(int(WAIT_S * 100)):
        if gate.wait(0.01) or closing.is_set():
            return


def _usage(step: Says) -> dict[str, Any]:
    tokens_in, tokens_out = step.tokens
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
        "prompt_tokens_details": {"cached_tokens": step.cached},
        "completion_tokens_details": {"reasoning_tokens": step.reasoning},
    }


def _chunk(delta: Mapping[str, Any] | None, finish: str | None = None) -> Chunk:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "test",
            "choices": choices}  # fmt: skip


def _chunks(step: Says, counts: bool) -> Iterator[Chunk]:
    yield _chunk({"role": "assistant", "content": ""})
    for piece in step.thinking:
        yield _chunk({step.channel: piece})
    for piece in step.pieces:
        yield _chunk({"content": piece})
    if step.refusal:
        yield _chunk({"refusal": step.refusal})
    if step.error is not None:
        yield {"error": step.error}
        return
    if step.drop or step.finish is None:
        return
    last = _chunk({}, step.finish)
    if step.usage == "inside":
        last["usage"] = _usage(step)
    yield last
    if step.usage == "end" and counts:
        yield {**_chunk(None), "usage": _usage(step)}


def _messages(step: Says) -> Iterator[Chunk]:
    """The same in the protocol of Anthropic's models, which come in blocks."""
    tokens_in, tokens_out = step.tokens
    usage = {"input_tokens": tokens_in - step.cached, "output_tokens": 1,
             "cache_read_input_tokens": step.cached, "cache_creation_input_tokens": 0}  # fmt: skip
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    yield {"type": "message_start", "message": message}
    for index, (kind, pieces) in enumerate((("thinking", step.thinking), ("text", step.pieces))):
        start = {"type": kind, kind: ""}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for piece in pieces:
            delta = {"type": f"{kind}_delta", kind: piece}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if step.error is not None:
        yield {"type": "error", "error": step.error}
        return
    if step.drop or step.finish is None:
        return
    delta = {"stop_reason": step.finish, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens_out}}
    yield {"type": "message_stop"}


def whole(step: Says) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(step.pieces) or None}
    if step.thinking:
        message[step.channel] = "".join(step.thinking)
    if step.refusal:
        message["refusal"] = step.refusal
    reply: dict[str, Any] = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "test",
        "choices": [{"index": 0, "message": message, "finish_reason": step.finish or "stop"}],
    }  # fmt: skip
    if step.usage != "none":
        reply["usage"] = _usage(step)
    return reply
