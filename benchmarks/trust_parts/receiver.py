"""Whom notifications reach: an HTTP server outside of Lathe that counts every request it takes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, kw_only=True)
class Post:
    """`key`: what the sender gave so that a repetition can be told from a second message."""

    text: str
    key: str


@dataclass
class Receiver:
    """`posts` in the order of their arrival."""

    url: str
    posts: list[Post] = field(default_factory=list)

    def count(self, text: str) -> int:
        return sum(post.text == text for post in self.posts)


@contextmanager
def receiver() -> Iterator[Receiver]:
    """On a free loopback port until the end."""
    found = Receiver(url="")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
            found.posts.append(Post(text=str(body.get("text", "")), key=self.headers.get("Idempotency-Key", "")))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
