"""The egress proxy: what the rules say passes, all else does not, all is recorded (RC2-10.7 on one machine)."""

import contextlib
import http.server
import itertools
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.sandbox import Command, Limits, NamespaceSandbox
from agents.sandbox.egress import Denied, EgressRecord, EgressRule, is_public, read_request
from agents.sandbox.proxy import EgressProxy
from contracts.errors import UserInputError

PYTHON = "/usr/bin/python3"


class Upstream(http.server.ThreadingHTTPServer):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Upstream

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from " + self.path.encode())

    do_POST = do_GET

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="lt"))
    yield path
    shutil.rmtree(path)


def request_of(data: bytes) -> tuple[str, str, int, str, bytes]:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(data)
        left.shutdown(socket.SHUT_WR)
        request = read_request(right)
    return request.method, request.host, request.port, request.path, request.head()


def test_a_command_reaches_only_what_the_rules_allow(
    sandbox: NamespaceSandbox, upstream: Upstream, folder: Path
) -> None:
    port = upstream.server_address[1]
    rules = (
        EgressRule(host="localhost", port=port, methods=("GET", "POST"), path_prefix="/ok/", private=True),
        EgressRule(host="127.0.0.1", port=port, methods=("CONNECT",), private=True),
    )
    code = f"""
import http.client, socket, urllib.request, urllib.error
def get(url, **options):
    try: return urllib.request.urlopen(urllib.request.Request(url, **options), timeout=10).read().decode()
    except urllib.error.URLError as error: return str(error)
base = "http://localhost:{port}"
print(get(base + "/ok/1", headers={{"Authorization": "secret", "Cookie": "secret", "X-Kind": "plain"}}))
print(get(base + "/ok/2", data=b"x" * 100000))
print(get(base + "/other")); print(get(base + "/ok/%2e%2e/other")); print(get("http://example.org/"))
tunnel = http.client.HTTPConnection("127.0.0.1", 3128); tunnel.set_tunnel("127.0.0.1", {port})
tunnel.request("GET", "/through"); print(tunnel.getresponse().read().decode())
try: socket.create_connection(("127.0.0.1", {port}), timeout=1)
except OSError as error: print(error.errno)
"""
    records: list[EgressRecord] = []
    ticks = itertools.count()
    with EgressProxy(folder / "s", rules, record=records.append, clock=lambda: float(next(ticks))) as proxy:
        workspace = sandbox.create()
        command = Command(argv=(PYTHON, "-c", code), proxy=proxy.socket_path, limits=Limits(wall_s=30))
        result = sandbox.run(workspace, command)
        workspace.discard()
    refused = "HTTP Error 403: Forbidden"
    expected = ["hello from /ok/1", "hello from /ok/2", refused, refused, refused, "hello from /through", "111"]
    assert result.stdout.decode().splitlines() == expected, result
    assert [(method, path) for method, path, _, _ in upstream.asked] == [
        ("GET", "/ok/1"), ("POST", "/ok/2"), ("GET", "/through"),
    ]  # fmt: skip
    assert {"authorization", "cookie"} & upstream.asked[0][2].keys() == set()
    assert upstream.asked[0][2]["x-kind"] == "plain"
    assert upstream.asked[1][3] == b"x" * 100000
    assert [record.allowed for record in sorted(records, key=lambda record: record.at)] == [
        True, True, False, False, False, True,
    ]  # fmt: skip
    assert all(record.received_bytes > 0 for record in records if record.allowed)


def test_an_address_that_is_not_public_needs_a_rule_that_says_so(upstream: Upstream, folder: Path) -> None:
    port = upstream.server_address[1]
    records: list[EgressRecord] = []
    rule = EgressRule(host="localhost", port=port, methods=("GET",))
    proxy = EgressProxy(folder / "s", (rule,), record=records.append, clock=lambda: 0.0)
    with proxy, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder / "s"))
        client.sendall(f"GET http://localhost:{port}/ HTTP/1.1\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 403")
    assert "not a public address" in records[0].reason
    assert upstream.asked == []


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("POST http://localhost:{port}/ HTTP/1.1\r\nContent-Length: 50000\r\n\r\n", "larger than a connection"),
        ("CONNECT localhost:{port} HTTP/1.1\r\n\r\n", "cut off at the byte limit"),
    ],
)
def test_no_more_than_the_byte_limit_goes_out(upstream: Upstream, folder: Path, head: str, reason: str) -> None:
    port = upstream.server_address[1]
    records: list[EgressRecord] = []
    rule = EgressRule(host="localhost", port=port, methods=("POST", "CONNECT"), private=True)
    proxy = EgressProxy(folder / "s", (rule,), record=records.append, clock=lambda: 0.0, max_bytes=1000, idle_s=1.0)
    with proxy, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder / "s"))
        client.sendall(head.format(port=port).encode() + b"x" * 50000)
        with contextlib.suppress(ConnectionError):
            while client.recv(1000):
                pass
    assert reason in records[0].reason
    assert records[0].sent_bytes <= 1000


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fe80::1%2", "64:ff9b::a00:1",
        "2002:a00:1::", "0.0.0.0", "224.0.0.1", "100.64.0.1", "fd00::1",
    ],
)  # fmt: skip
def test_private_addresses_are_known_in_every_form(address: str) -> None:
    assert not is_public(address)
    assert is_public("8.8.8.8")
    assert is_public("2606:4700::1111")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET https://a/ HTTP/1.1\r\n\r\n",
        b"GET http://a@b/ HTTP/1.1\r\n\r\n",
        b"GET http://[::1]/ HTTP/1.1\r\n\r\n",
        b"GET http://a/ HTTP/2\r\n\r\n",
        b"GET http://a/\x0b HTTP/1.1\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nA : b\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nA: b\nB: c\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"CONNECT a HTTP/1.1\r\n\r\n",
        b"CONNECT a:1/x HTTP/1.1\r\n\r\n",
        b"GET http://a:99999/ HTTP/1.1\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    with pytest.raises(Denied):
        request_of(data)


def test_a_plain_request_is_rewritten_for_the_origin() -> None:
    data = b"GET http://Example.ORG./a?b=c HTTP/1.0\r\nHost: other\r\nX-Api-Key: k\r\nAccept: */*\r\n\r\nrest"
    head = b"GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\nAccept: */*\r\n\r\n"
    assert request_of(data) == ("GET", "example.org", 80, "/a?b=c", head)


def test_headers_that_may_carry_credentials_are_dropped_by_any_name() -> None:
    names = ("Api-Key", "Private-Token", "X-Amz-Security-Token", "X-Client-Secret", "X-Goog-Api-Key", "Set-Cookie2")
    kept = ("Accept", "If-None-Match", "Range", "User-Agent", "X-Kind")
    lines = "".join(f"{name}: v\r\n" for name in (*names, *kept))
    head = request_of(f"GET http://a/ HTTP/1.1\r\n{lines}\r\n".encode())[4].decode()
    assert [line.partition(":")[0] for line in head.splitlines()[3:-1]] == list(kept)


def test_headers_that_override_the_request_are_dropped() -> None:
    names = (
        "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL",
        "X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "X-Host", "X-Real-IP", "Via",
    )  # fmt: skip
    lines = "".join(f"{name}: v\r\n" for name in (*names, "Origin"))
    head = request_of(f"GET http://a/ HTTP/1.1\r\n{lines}\r\n".encode())[4].decode()
    assert [line.partition(":")[0] for line in head.splitlines()[3:-1]] == ["Origin"]


@pytest.mark.parametrize(
    "path",
    [
        "/ok/%2e%2e/x", "/ok/%25252e%25252e/x", "/ok/" + "%" + "25" * 12 + "2e/x", "/other", "/ok/%c0%ae%c0%ae/x",
        "/ok/%25c0%25ae/x", "/ok/%u002e%u002e/x", "/ok/.%00./x", "/ok/x%00", "/ok/%0d%0aX:y",
        "/ok/%ef%bc%8e%ef%bc%8e/x",
    ],
)  # fmt: skip
def test_a_path_is_judged_as_any_server_may_read_it(path: str) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(f"GET http://a{path} HTTP/1.1\r\n\r\n".encode())
        request = read_request(right)
    rule = EgressRule(host="a", port=80, methods=("GET",), path_prefix="/ok/")
    assert not rule.allows(request)
    assert rule.allows(replace(request, path="/ok/caf%c3%a9/100%25?x=../%00"))


def test_rules_and_sockets_that_cannot_work_are_refused(folder: Path) -> None:
    for host, method in (("Example.org", "GET"), ("example.org:80", "GET"), ("example.org", "get")):
        with pytest.raises(UserInputError, match="no request can match"):
            EgressRule(host=host, methods=(method,))
    for name in ("there", "x" * 120):
        (folder / "there").touch()
        with pytest.raises(UserInputError, match="cannot listen"):
            EgressProxy(folder / name, (), record=lambda record: None, clock=lambda: 0.0).start()
