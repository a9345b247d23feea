"""The base of the integration tests: a server of their own, and its clients.

Server     starts `sluice serve` on a private port and data folder, waits for /readyz, stops it.
Conn       a raw socket: sends exactly the bytes given, reads exactly one answer (strictly).
Client     a keep-alive JSON client on top of Conn.
Events     a reader of server-sent events on top of Conn.
Shop       the flows of the API: create and open a sale, ticket, buy, wait, pay, cancel.
problem()  checks a refusal: its status, code and the whole shape of RFC 9457.

Tests wait for conditions, not for time; GUARD_S only turns a hang into a failure. Every port is
locked between test processes, so tests may run in parallel.
"""
import copy
import itertools
import functools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import namedtuple

from signlib import (b64url, compact, ed25519_public, ed25519_sign, hs256, mint, sign_jwt, unb64url,
                     webhook_signature)
from waitlib import GUARD_S, Background, Lately, eventually, private_port

__all__ = ["b64url", "compact", "ed25519_public", "ed25519_sign", "hs256", "mint", "sign_jwt",
           "unb64url", "webhook_signature", "GUARD_S", "Background", "Lately", "eventually",
           "private_port"]

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BINARY = os.path.abspath(os.environ.get("SLUICE") or os.path.join(ROOT, "build/release/sluice"))
# Every server runs the distributed engine, on servers that enginelib starts.
DISTRIBUTED = os.environ.get("SLUICE_ENGINE") == "distributed"
SEGMENTED = DISTRIBUTED and int(os.environ.get("SLUICE_SEGMENTS", "1")) > 1
MAX_ID = 2**53 - 1

FINAL = ("PAID", "EXPIRED", "CANCELLED", "FAILED")
RETRIES = ("no", "later", "same-ticket", "new-ticket")
CODES = {
    400: ("bad_request",),
    401: ("unauthenticated", "bad_signature"),
    403: ("forbidden", "bad_ticket", "blocked"),
    404: ("not_found", "no_such_item"),
    405: ("method_not_allowed",),
    409: ("sold_out", "limit_reached", "barred", "not_open", "ended", "expired", "already_paid",
          "queued", "exists", "bad_state"),
    413: ("too_large",),
    415: ("bad_media_type",),
    422: ("different_request", "wrong_amount"),
    425: ("too_early",),
    429: ("rate_limited",),
    503: ("overloaded", "degraded", "draining"),
}


# ---------------------------------------------------------------- one connection

class ProtocolError(AssertionError):
    """The server broke HTTP's own rules."""


class Response:
    def __init__(self, status, reason, headers, body=b"", version="HTTP/1.1"):
        self.version, self.status, self.reason = version, status, reason
        self.headers, self.body = headers, body

    def get_all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def get(self, name, default=None):
        values = self.get_all(name)
        return ", ".join(values) if values else default

    @property
    def closes(self):
        options = [o.strip().lower() for o in (self.get("connection") or "").split(",")]
        return "close" in options or (self.version == "HTTP/1.0" and "keep-alive" not in options)

    def json(self):
        return json.loads(self.body.decode("utf-8"))

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:600]!r}>"


class Conn:
    """A raw socket that speaks exactly the bytes it is given and reads strictly."""

    def __init__(self, address, timeout_s=GUARD_S, source=None):
        self.sock = socket.create_connection(address, timeout_s, source and (source, 0))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.ended = False

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))
        return self

    def try_send(self, data):
        """Send what the server will still take; False when it has closed meanwhile."""
        try:
            self.send(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def send_split(self, data, step=1):
        for at in range(0, len(data), step):
            self.send(data[at:at + step])
        return self

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)
        return self

    def fill(self):
        """Read more; False at the end of the stream (a reset ends it too)."""
        if self.ended:
            return False
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            data = b""
        self.ended = not data
        self.buffer += data
        return bool(data)

    def _until(self, mark):
        while mark not in self.buffer:
            if not self.fill():
                raise ProtocolError(f"closed while waiting for {mark!r}; got {self.buffer[:300]!r}")
        head, _, self.buffer = self.buffer.partition(mark)
        return head

    def _exactly(self, count):
        while len(self.buffer) < count:
            if not self.fill():
                raise ProtocolError(f"closed {count - len(self.buffer)} bytes early")
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def read_head(self):
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        match = re.fullmatch(r"(HTTP/1\.[01]) (\d{3}) ?([\t -~]*)", lines[0])
        if not match:
            raise ProtocolError(f"bad status line {lines[0]!r}")
        headers = []
        for line in lines[1:]:
            field = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*", line)
            if not field:
                raise ProtocolError(f"bad header line {line!r}")
            headers.append(field.groups())
        return Response(int(match[2]), match[3], headers, version=match[1])

    def _framing(self, response):
        lengths = response.get_all("content-length")
        codings = response.get_all("transfer-encoding")
        if len(lengths) > 1 or len(codings) > 1 or (lengths and codings):
            raise ProtocolError(f"ambiguous framing in {response}")
        if lengths and not re.fullmatch(r"\d+", lengths[0]):
            raise ProtocolError(f"bad Content-Length in {response}")
        if codings and codings[0].lower() != "chunked":
            raise ProtocolError(f"bad Transfer-Encoding in {response}")
        return (int(lengths[0]) if lengths else None), bool(codings)

    def chunks(self):
        """The pieces of a chunked body, strictly framed."""
        while True:
            size = self._until(b"\r\n")
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size):
                raise ProtocolError(f"bad chunk size {size!r}")
            if int(size, 16) == 0:
                while self._until(b"\r\n"):
                    pass
                return
            data = self._exactly(int(size, 16))
            if self._exactly(2) != b"\r\n":
                raise ProtocolError("chunk without its CRLF")
            yield data

    def read_response(self, method="GET", interim=False):
        """One answer, body and all. 1xx answers are skipped unless interim asks for them."""
        response = self.read_head()
        while 100 <= response.status < 200:
            if interim:
                return response
            response = self.read_head()
        length, chunked = self._framing(response)
        if method == "HEAD" or response.status in (204, 304):
            if response.status == 204 and (length or chunked):
                raise ProtocolError("204 with framing headers")
            return response
        if chunked:
            response.body = b"".join(self.chunks())
        elif length is not None:
            response.body = self._exactly(length)
        elif response.closes:
            response.body = self.read_to_close()
        else:
            raise ProtocolError(f"no framing and no close in {response}")
        return response

    def read_to_close(self):
        while self.fill():
            pass
        data, self.buffer = self.buffer, b""
        return data

    def closed(self):
        """Wait for the peer to close; True when it does so without another byte."""
        return self.read_to_close() == b""

    def responses_to_close(self):
        """Every answer up to the end of the stream."""
        found = []
        while self.buffer or self.fill():
            found.append(self.read_response())
        return found


def request_bytes(method, path, headers=(), body=None, host="sluice.test"):
    """A well-formed request, Content-Length added where there is a body."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{n}: {v}" for n, v in (headers.items() if isinstance(headers, dict) else headers)]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b"")


class Client:
    """A keep-alive JSON client. One thread each."""

    def __init__(self, address, source=None):
        self.address, self.source, self.conn, self.used_at = address, source, None, 0.0

    def close(self):
        if self.conn:
            self.conn.close()
        self.conn = None

    def call(self, method, path, body=None, token=None, headers=None, content_type=None):
        """body: bytes as they are, None for no body, anything else as JSON."""
        fields = {}
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        if body is not None:
            fields["Content-Type"] = content_type or "application/json"
            body = body if isinstance(body, bytes) else compact(body)
        fields.update(headers or {})
        # A server may drop an idle connection whenever it likes, so an old one is not reused.
        if self.conn is None or time.monotonic() - self.used_at > 2:
            self.close()
            self.conn = Conn(self.address, source=self.source)
        try:
            # A refusal may come, and the door close, before a large body is through.
            self.conn.try_send(request_bytes(method, path, fields, body))
            response = self.conn.read_response(method)
        except BaseException:
            self.close()
            raise
        self.used_at = time.monotonic()
        if response.closes:
            self.close()
        return response


Event = namedtuple("Event", "event data id comments")


class Events:
    """A stream of server-sent events: `next()` gives one, or None when the server ended it."""

    def __init__(self, address, path, token=None, last_event_id=None, headers=None):
        fields = {"Accept": "text/event-stream"}
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        if last_event_id is not None:
            fields["Last-Event-ID"] = last_event_id
        fields.update(headers or {})
        self.conn = Conn(address)
        self.conn.send(request_bytes("GET", path, fields))
        self.response = self.conn.read_head()
        length, self.chunked = self.conn._framing(self.response)
        if self.response.status != 200:
            self.response.body = self.conn._exactly(length or 0)
            self.conn.close()
            return
        assert (self.response.get("content-type") or "").split(";")[0] == "text/event-stream", \
            self.response
        assert length is None, "a stream has no length"
        self.pieces = self.conn.chunks() if self.chunked else self._plain()
        self.text = b""

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.conn.close()

    def _plain(self):
        while self.conn.buffer or self.conn.fill():
            data, self.conn.buffer = self.conn.buffer, b""
            yield data

    def _line(self):
        while b"\n" not in self.text:
            piece = next(self.pieces, None)
            if piece is None:
                assert not self.text, f"stream ended inside a line: {self.text!r}"
                return None
            self.text += piece
        line, _, self.text = self.text.partition(b"\n")
        return line.rstrip(b"\r").decode("utf-8")

    def next(self):
        kind, data, ident, comments = "message", [], None, []
        while True:
            line = self._line()
            if line is None:
                return None
            if line == "":
                if data:
                    return Event(kind, "\n".join(data), ident, comments)
                kind = "message"
                continue
            name, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "":
                comments.append(value)
            elif name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            elif name == "id":
                ident = value

    def until(self, wanted, what="the event"):
        """The first event for which wanted(event) holds."""
        end = time.monotonic() + GUARD_S
        while True:
            event = self.next()
            assert event is not None, f"the stream ended before {what}"
            if wanted(event):
                return event
            assert time.monotonic() < end, f"gave up waiting for {what}"


# ---------------------------------------------------------------- the server

running = []

@functools.lru_cache(maxsize=None)
def without_limits():
    """--set options: without the rate limits that ship, which tests and loads would meet. A program
    given by $SLUICE may be older than they are."""
    told = subprocess.run([BINARY, "serve", "--print-config"], capture_output=True, text=True, check=False)
    return ["--set", "admission.defaults=false"] if "\nadmission {" in told.stdout else []


class Server:
    """One `sluice serve` with a private port and data folder (or its ledger in a database)."""

    def __init__(self, data=None, demo=False, sets=(), extra=(), port=None, database=None):
        self.owns_data = data is None
        self.data = data or tempfile.mkdtemp(prefix="sluice-it-")
        self.port = port or private_port()
        self.address = ("127.0.0.1", self.port)
        self.demo, self.sets, self.extra, self.database = demo, list(sets), list(extra), database
        if DISTRIBUTED and not database:
            import enginelib
            engine, self.database = enginelib.shared().settings()
            self.sets = engine + enginelib.PATIENT + self.sets
            database = self.database
        self.sets += [f"ledger.url={database.url}"] if database else []
        self.process = None
        self.log_fd, self.log_path = tempfile.mkstemp(prefix="sluice-it-", suffix=".log")
        self.client = Client(self.address)
        self._tokens = {}

    def command(self):
        command = [BINARY, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", self.data]
        command += ["--demo"] if self.demo else without_limits()
        for setting in self.sets:
            command += ["--set", setting]
        return command + self.extra

    def spawn(self):
        assert os.access(BINARY, os.X_OK), f"no program at {BINARY}; build it or set SLUICE"
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL,
                                        stdout=self.log_fd, stderr=self.log_fd)
        running.append(self)
        return self

    def start(self):
        self.spawn()

        def ready():
            assert self.process.poll() is None, \
                f"the server ended with {self.process.returncode}:\n{self.log()}"
            return self._ready()

        eventually(ready, f"/readyz of {self.log_path}")
        return self

    def refused_start(self):
        """A start that must not succeed: its exit code."""
        self.spawn()
        eventually(lambda: self.process.poll() is not None or self._ready(), "the end or /readyz")
        assert self.process.poll() is not None, f"the server started after all:\n{self.log()}"
        return self.wait_exit()

    def _ready(self):
        try:
            with Conn(self.address) as conn:
                conn.send(request_bytes("GET", "/readyz"))
                return conn.read_response().status == 200
        except (OSError, ProtocolError):
            return False

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self):
        code = self.process.wait(timeout=GUARD_S)
        self.client.close()
        if self in running:
            running.remove(self)
        return code

    def stop(self):
        """SIGTERM; a clean end is exit 0 and no sanitizer report."""
        if self.process is None or self.process.returncode is not None:
            return
        self.signal(signal.SIGTERM)
        try:
            code = self.wait_exit()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"SIGTERM did not end the server:\n{self.log()}")
        assert code == 0, f"exit {code} after SIGTERM:\n{self.log()}"
        for mark in ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:"):
            assert mark not in self.log(), self.log()

    def kill(self):
        if self.process is not None and self.process.returncode is None:
            self.signal(signal.SIGKILL)
            self.wait_exit()

    def restart(self, kill=False):
        self.kill() if kill else self.stop()
        return self.start()

    def discard(self):
        """After the end: remove the folder and the log."""
        self.kill()
        self.client.close()
        if self in running:
            running.remove(self)  # it ended by itself
        if self.log_fd is not None:
            os.close(self.log_fd)
            self.log_fd = None
        if not os.environ.get("SLUICE_KEEP"):
            if self.owns_data:
                shutil.rmtree(self.data, ignore_errors=True)
            if os.path.exists(self.log_path):
                os.unlink(self.log_path)

    def beside(self):
        """The same server through a connection of its own, for another thread."""
        twin = copy.copy(self)
        twin.client = Client(self.address)
        return twin

    def secret(self, name):
        with open(os.path.join(self.data, name)) as file:
            return file.read().strip()

    def secret_bytes(self, name):
        return unb64url(self.secret(name))

    @property
    def admin_token(self):
        return self.secret("admin.token")

    def token(self, user):
        if user not in self._tokens:
            self._tokens[user] = mint(user, key=self.secret_bytes("jwt.key"), ttl=86400)
        return self._tokens[user]

    def conn(self, timeout_s=GUARD_S):
        return Conn(self.address, timeout_s)

    def events(self, path, token=None, **more):
        return Events(self.address, path, token, **more)

    def call(self, method, path, body=None, token=None, **more):
        return self.client.call(method, path, body, token, **more)

    def get(self, path, token=None, **more):
        return self.call("GET", path, None, token, **more)

    def admin(self, method, path, body=None, **more):
        return self.call(method, "/v1/admin" + path, body, self.admin_token, **more)

    def now_ms(self):
        return self.get("/v1/time").json()["now_ms"]


def run(*arguments, timeout_s=GUARD_S):
    """A short command of the program: (exit code, stdout, stderr)."""
    done = subprocess.run([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout_s)
    return done.returncode, done.stdout, done.stderr


# ---------------------------------------------------------------- refusals

def problem(response, status, code=None, retry=None, field=None, **members):
    """Check one refusal completely; returns its JSON. status, code and retry may be tuples."""
    statuses = status if isinstance(status, tuple) else (status,)
    assert response.status in statuses, f"wanted {status} {code}, got {response}"
    kind = (response.get("content-type") or "").split(";")[0]
    assert kind == "application/problem+json", response
    body = response.json()
    for name, kind in (("type", str), ("title", str), ("status", int), ("code", str),
                       ("detail", str), ("retry", str)):
        assert isinstance(body.get(name), kind), f"`{name}` is missing or wrong in {body}"
    assert body["status"] == response.status, body
    assert body["title"] and re.fullmatch(r"[a-z][a-z_]*", body["code"]), body
    if response.status in CODES:
        assert body["code"] in CODES[response.status], body
    if code is not None:
        assert body["code"] in (code if isinstance(code, tuple) else (code,)), body
    assert body["retry"] in RETRIES, body
    if retry is not None:
        assert body["retry"] in (retry if isinstance(retry, tuple) else (retry,)), body
    if body["retry"] == "later":
        assert re.fullmatch(r"\d+", response.get("retry-after") or ""), \
            f"`later` needs Retry-After: {response}"
    if "retry_after_ms" in body:
        assert isinstance(body["retry_after_ms"], int) and body["retry_after_ms"] >= 0, body
    if field is not None:
        assert isinstance(body.get("field"), str), f"no `field` in {body}"
        assert re.search(rf"(^|[^A-Za-z0-9_]){field}$", body["field"]), \
            f"`field` should name {field}: {body}"
    for name, value in members.items():
        assert body.get(name) == value, f"`{name}` should be {value!r} in {body}"
    return body


def framing_refusal(conn, statuses=(400,)):
    """A malformed request: one problem+json answer of these statuses, then the connection ends."""
    response = conn.read_response()
    problem(response, tuple(statuses))
    assert response.closes, f"the answer does not say close: {response}"
    assert conn.closed(), "bytes after the refusal"
    return response


# ---------------------------------------------------------------- the flows of the contract

_users = itertools.count(random.SystemRandom().randrange(10**6, 10**9))
_names = itertools.count(1)

Lot = namedtuple("Lot", "sale item price total limit")


def item_json(name="thing", price_cents=1999, total=10, limit_per_user=1, **more):
    return dict(name=name, price_cents=price_cents, total=total, limit_per_user=limit_per_user,
                **more)


def is_degraded(response):
    """The distributed engine may say so to a buyer at any time: the units are still on their way to
    the buyer's segment, or Redis is slow. The contract has the client send the same request again."""
    return response.status == 503 and response.json()["code"] == "degraded"


def retry_degraded(call, insist=DISTRIBUTED):
    """The first answer of call() that is not `503 degraded`; insist: ask again after that one."""
    def answer():
        response = call()
        return None if insist and is_degraded(response) else response

    return eventually(answer, "an answer other than `503 degraded`")


class Shop:
    """Buyers, the shop and the operator of one server."""

    def __init__(self, server):
        self.server = server

    def user(self):
        return next(_users)

    def unique(self, prefix="x"):
        return f"{prefix}-{os.getpid()}-{next(_names)}"

    # operators

    def sale_json(self, items=None, starts_in_ms=-1000, ends_in_ms=3600_000, pay_within_s=600,
                  **more):
        now_ms = int(time.time() * 1000)
        return dict(dict(name=self.unique("sale"), starts_at_ms=now_ms + starts_in_ms,
                         ends_at_ms=now_ms + ends_in_ms, pay_within_s=pay_within_s,
                         items=[item_json()] if items is None else items), **more)

    def create_sale(self, items=None, **more):
        response = self.server.admin("POST", "/sales", self.sale_json(items, **more))
        assert response.status == 201, response
        return response.json()

    def move(self, sale, move):
        return self.server.admin("POST", f"/sales/{sale}/{move}")

    def moved(self, sale, move):
        response = self.move(sale, move)
        assert response.status == 200, response
        return response.json()

    def sale(self, sale):
        response = self.server.admin("GET", f"/sales/{sale}")
        assert response.status == 200, response
        return response.json()

    def lot(self, total=10, limit=1, price=1999, state="open", item=None, **more):
        """A sale of one item, moved to `state`."""
        made = self.create_sale([item_json(price_cents=price, total=total, limit_per_user=limit,
                                           **(item or {}))], **more)
        if state != "draft":
            self.moved(made["id"], state)
        return Lot(made["id"], made["items"][0]["id"], price, total, limit)

    def restock(self, item, add, request_id=None):
        return self.server.admin("POST", f"/items/{item}/restock",
                                 {"add": add, "request_id": request_id or self.unique("restock")})

    # buyers

    def item(self, item, **shown):
        """The item, showing this; on the distributed engine once it does, for its state and its
        numbers may be a moment old there."""
        def look():
            body = self.item_now(item)
            return body if all(body[name] == value for name, value in shown.items()) else None

        if DISTRIBUTED:
            return eventually(look, f"item {item} to show {shown}")
        body = self.item_now(item)
        assert {name: body[name] for name in shown} == shown, body
        return body

    def item_now(self, item):
        response = self.server.get(f"/v1/items/{item}")
        assert response.status == 200, response
        body = response.json()
        assert body["available"] + body["locked"] + body["sold"] == body["total"], body
        return body

    def counters(self, item):
        if DISTRIBUTED:
            return Lately(lambda: self.counters_now(item))
        return self.counters_now(item)

    def counters_now(self, item):
        body = self.item_now(item)
        return body["available"], body["locked"], body["sold"]

    def wait_counters(self, item, available, locked, sold):
        eventually(lambda: self.counters_now(item) == (available, locked, sold),
                   f"item {item} at {(available, locked, sold)}")

    def try_ticket(self, user, item, body=None):
        return retry_degraded(lambda: self.server.call("POST", f"/v1/items/{item}/ticket", body,
                                                       self.server.token(user)))

    def ticket(self, user, item):
        response = retry_degraded(lambda: self.try_ticket(user, item), insist=True)
        assert response.status == 201, response
        return response.json()

    def buy(self, user, ticket, qty=None, body=None):
        """ticket: what ticket() gave, or the bare string."""
        text = ticket["ticket"] if isinstance(ticket, dict) else ticket
        body = {"qty": qty} if body is None and qty is not None else body
        return retry_degraded(lambda: self.server.call("POST", f"/v1/buy/{text}", body,
                                                       self.server.token(user)))

    def bought(self, user, ticket, qty=None):
        response = retry_degraded(lambda: self.buy(user, ticket, qty), insist=True)
        assert response.status in (200, 202), response
        body = response.json()
        assert (response.status == 202) == (body["status"] == "QUEUED"), response
        return body

    def get_order(self, user, order, query=""):
        return retry_degraded(lambda: self.server.get(f"/v1/orders/{order}{query}",
                                                      self.server.token(user)))

    def order(self, user, order):
        response = retry_degraded(lambda: self.get_order(user, order), insist=True)
        assert response.status == 200, response
        return response.json()

    def wait_status(self, user, order, *statuses):
        """Long-poll until the order is in one of these states."""
        end = time.monotonic() + GUARD_S
        seen = "QUEUED"
        while True:
            response = retry_degraded(
                lambda: self.get_order(user, order, f"?wait_ms=1000&status={seen}"), insist=True)
            assert response.status == 200, response
            body = response.json()
            if body["status"] in statuses:
                return body
            seen = body["status"]
            assert seen not in FINAL, f"wanted {statuses}, got {body}"
            assert time.monotonic() < end, f"gave up waiting for {statuses}: {body}"

    def order_locked(self, user, item, qty=None):
        """Ticket, buy, wait: a LOCKED order."""
        ticket = self.ticket(user, item)
        bought = self.bought(user, ticket, qty)
        assert bought["order_id"] == ticket["order_id"], (bought, ticket)
        return self.wait_status(user, bought["order_id"], "LOCKED")

    def cancel(self, user, order):
        return self.server.call("POST", f"/v1/orders/{order}/cancel", None,
                                self.server.token(user))

    def cancelled(self, user, order):
        response = self.cancel(user, order)
        assert response.status == 200, response
        assert response.json()["status"] == "CANCELLED", response
        return response.json()

    def my_orders(self, user, query=""):
        return self.server.get(f"/v1/me/orders{query}", self.server.token(user))

    def my_locked(self, user, count):
        """The ids of a buyer's LOCKED orders, oldest first, once there are `count` of them."""
        def locked():
            found = [o["order_id"] for o in self.my_orders(user).json()["orders"]
                     if o["status"] == "LOCKED"]
            return found[::-1] if len(found) == count else None
        return eventually(locked, f"{count} locked orders")

    # the payment system

    def payment(self, body, message_id=None, timestamp=None, key=None, signature=None,
                headers=None, drop=()):
        """A signed call to /v1/payments; every part can be made wrong."""
        body = body if isinstance(body, bytes) else compact(body)
        message_id = message_id or self.unique("msg")
        timestamp = str(int(time.time()) if timestamp is None else timestamp)
        key = self.server.secret_bytes("webhook.key") if key is None else key
        if signature is None:
            signature = webhook_signature(key, message_id, timestamp, body)
        fields = {"webhook-id": message_id, "webhook-timestamp": timestamp,
                  "webhook-signature": signature}
        fields.update(headers or {})
        for name in drop:
            fields.pop(name)
        return self.server.call("POST", "/v1/payments", body, headers=fields)

    def pay(self, order, amount_cents, payment_id=None):
        return self.payment({"payment_id": payment_id or self.unique("pay"), "order_id": order,
                             "amount_cents": amount_cents})

    def paid(self, order, amount_cents, payment_id=None):
        response = self.pay(order, amount_cents, payment_id)
        assert response.status == 200, response
        assert response.json()["status"] == "PAID", response
        return response.json()
