"""Limits on line, headers, body, time and connections."""
import resource
import socket
import struct
import time

import pytest

import sluicelib
from sluicelib import GUARD_S, Server, Shop, eventually, framing_refusal, problem, request_bytes

GET_TIME = b"GET /v1/time HTTP/1.1\r\nHost: x\r\n\r\n"


# ---------------------------------------------------------------- sizes

@pytest.mark.parametrize("length", [20_000, 100_000, 1_000_000])
def test_an_over_long_line_is_414(server, length):
    with server.conn() as conn:
        conn.try_send(b"GET /" + b"a" * length + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        framing_refusal(conn, (414,))
    assert server.get("/v1/time").status == 200


def test_an_over_long_query_is_414(server):
    with server.conn() as conn:
        conn.try_send(b"GET /v1/time?" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        framing_refusal(conn, (414,))


def test_an_over_long_line_that_never_ends(server):
    with server.conn() as conn:
        conn.try_send(b"GET /" + b"a" * 100_000)
        framing_refusal(conn, (414,))


@pytest.mark.asan
@pytest.mark.parametrize("headers", [
    b"X: " + b"a" * 100_000 + b"\r\n", b"X" * 100_000 + b": a\r\n",
    b"".join(b"X-%d: y\r\n" % n for n in range(20_000)), b"X: y\r\n" * 20_000,
    b"Authorization: Bearer " + b"a" * 100_000 + b"\r\n"], ids=lambda v: repr(v)[:20])
def test_too_many_header_bytes_are_431(server, headers):
    with server.conn() as conn:
        conn.try_send(b"GET /v1/time HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
        framing_refusal(conn, (431,))
    assert server.get("/v1/time").status == 200


def test_too_many_header_bytes_that_never_end(server):
    with server.conn() as conn:
        conn.try_send(b"GET /v1/time HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000)
        framing_refusal(conn, (431,))


def test_endless_empty_lines_before_a_request_end_somewhere(server):
    """Either limit will do, but not reading for ever."""
    with server.conn() as conn:
        conn.sock.settimeout(5)
        alive = True
        for _ in range(200):
            try:
                alive = conn.try_send(b"\r\n" * 10_000)
            except TimeoutError:
                break
            if not alive:
                break
    assert server.get("/v1/time").status == 200


@pytest.mark.parametrize("length", [64 * 2**20, 2**31, 2**40])
def test_too_large_a_body_is_413_before_it_is_sent(server, length):
    with server.conn() as conn:
        conn.send(b"POST /v1/admin/sales HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                  + server.admin_token.encode() + b"\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % length)
        problem(conn.read_response(), 413, "too_large")
        assert conn.closed()


@pytest.mark.asan
def test_too_large_a_chunked_body_is_413_while_it_comes(server):
    with server.conn() as conn:
        conn.send(b"POST /v1/admin/sales HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                  + server.admin_token.encode() + b"\r\nContent-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(1024):
            if not conn.try_send(piece):
                break
        problem(conn.read_response(), 413, "too_large")
        assert conn.closed()
    assert server.get("/v1/time").status == 200


def test_one_huge_chunk_is_413_by_its_size(server):
    with server.conn() as conn:
        conn.send(b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n7fffffff\r\n")
        for _ in range(1024):
            if not conn.try_send(b"x" * 0x10000):
                break
        problem(conn.read_response(), 413, "too_large")


def test_a_body_of_many_tiny_chunks_is_bounded_too(server):
    with server.conn() as conn:
        conn.send(b"POST /v1/admin/sales HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                  + server.admin_token.encode() + b"\r\nContent-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")
        piece = b"1\r\nx\r\n" * 10_000
        for _ in range(2000):
            if not conn.try_send(piece):
                break
        problem(conn.read_response(), 413, "too_large")


def test_endless_trailers_are_bounded(server):
    with server.conn() as conn:
        conn.send(b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
        piece = b"X-Trailer: yyyyyyyyyy\r\n" * 1000
        for _ in range(2000):
            if not conn.try_send(piece):
                break
        problem(conn.read_response(), (400, 413, 431))


def test_endless_chunk_extensions_are_bounded(server):
    with server.conn() as conn:
        conn.send(b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n5;")
        for _ in range(2000):
            if not conn.try_send(b"a" * 20_000):
                break
        problem(conn.read_response(), (400, 413, 431))


# ---------------------------------------------------------------- time

@pytest.fixture(scope="module")
def impatient():
    made = Server(sets=["http.header_timeout_ms=500", "http.idle_timeout_ms=700"])
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.discard()


def timed_out(conn):
    """408 and closed, or just closed."""
    answers = conn.responses_to_close()
    assert len(answers) <= 1
    for answer in answers:
        problem(answer, 408)
    conn.close()


@pytest.mark.asan
@pytest.mark.parametrize("partial", [
    b"G", b"GET /v1/time", b"GET /v1/time HTTP/1.1\r\n", GET_TIME[:-2], GET_TIME[:-1],
    b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
    b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345",
    b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
    b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"], ids=repr)
def test_a_request_that_stops_halfway_is_ended(impatient, partial):
    conn = impatient.conn()
    conn.send(partial)
    timed_out(conn)


def test_a_request_that_drips_is_ended_too(impatient):
    """A byte now and then does not buy more time: the limit is for the whole request."""
    conn = impatient.conn()
    end = time.monotonic() + GUARD_S
    data = b"GET /v1/time HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 10_000
    for at in range(len(data)):
        assert time.monotonic() < end, "dripped for a minute"
        if not conn.try_send(data[at:at + 1]):
            break
        conn.sock.settimeout(0.05)
        try:
            if not conn.fill():
                break
        except TimeoutError:
            pass
    conn.sock.settimeout(GUARD_S)
    timed_out(conn)


def test_an_idle_connection_is_closed(impatient):
    conn = impatient.conn()
    conn.send(GET_TIME)
    assert conn.read_response().status == 200
    timed_out(conn)


def test_a_connection_that_says_nothing_is_closed(impatient):
    timed_out(impatient.conn())


def test_a_busy_connection_is_not_idle(impatient):
    with impatient.conn() as conn:
        for _ in range(20):
            conn.send(GET_TIME)
            assert conn.read_response().status == 200
            time.sleep(0.1)


def test_streams_and_long_polls_are_not_idle(impatient):
    shop = Shop(impatient)
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    with impatient.events(f"/v1/orders/{order}/events", impatient.token(user)) as events, \
            impatient.conn() as poll:
        events.next()
        poll.send(request_bytes("GET", f"/v1/orders/{order}?wait_ms=2500&status=LOCKED",
                                {"Authorization": f"Bearer {impatient.token(user)}"}))
        response = poll.read_response()    # several idle times later
        assert response.status == 200 and response.json()["status"] == "LOCKED"
        shop.cancelled(user, order)
        assert "CANCELLED" in events.next().data


def test_slow_clients_do_not_slow_others(impatient):
    slow = [impatient.conn() for _ in range(200)]
    try:
        for conn in slow:
            conn.send(b"GET /v1/time HTTP/1.1\r\nHost: x\r\nX: ")
        for _ in range(50):
            assert impatient.get("/v1/time").status == 200
        for conn in slow:
            timed_out(conn)
    finally:
        for conn in slow:
            conn.close()


# ---------------------------------------------------------------- many half-read requests

def test_many_half_read_requests_leave_room_for_whole_ones(server):
    """Half-read requests share a bounded pool: new ones must still be served."""
    slow = [server.conn() for _ in range(1500)]
    try:
        for conn in slow:
            conn.try_send(b"GET /v1/time HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 1000)
        for _ in range(20):
            assert server.get("/v1/time").status == 200
        # And one that comes in two parts is served as well.
        with server.conn() as conn:
            conn.send(GET_TIME[:20])
            assert server.get("/v1/time").status == 200
            conn.send(GET_TIME[20:])
            assert conn.read_response().status == 200
    finally:
        for conn in slow:
            conn.close()


def test_when_the_pool_is_empty_the_oldest_half_read_request_goes(make_server):
    server = make_server(sets=["server.threads=1", "http.small_buffers=16"])
    slow = [server.conn() for _ in range(64)]
    try:
        for conn in slow:
            conn.try_send(GET_TIME[:20])
            server.now_ms()    # one after the other, so that the first is the oldest
        timed_out(slow[0])
        slow[-1].send(GET_TIME[20:])
        assert slow[-1].read_response().status == 200
    finally:
        for conn in slow:
            conn.close()


def test_a_full_house_turns_new_connections_away_and_keeps_the_busy(make_server):
    """Idle connections give way to new ones, so all are answered; streams and long polls stay."""
    server = make_server(sets=["server.threads=1", "server.connections=16"])
    shop = Shop(server)
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    poll = server.conn()
    poll.send(request_bytes("GET", f"/v1/orders/{order}?wait_ms=30000&status=LOCKED",
                            {"Authorization": f"Bearer {server.token(user)}"}))
    events = server.events(f"/v1/orders/{order}/events", server.token(user))
    events.next()
    guests = []
    try:
        for _ in range(100):
            guests.append(server.conn())
            guests[-1].send(GET_TIME)
            assert guests[-1].read_response().status == 200
        server.client.close()    # it was idle, too
        shop.cancelled(user, order)
        assert "CANCELLED" in events.next().data
        assert poll.read_response().json()["status"] == "CANCELLED"
    finally:
        for conn in guests + [poll, events.conn]:
            conn.close()

    # Room again, once the server has seen them leave.
    def welcome():
        try:
            with server.conn() as conn:
                conn.send(GET_TIME)
                return conn.read_response().status == 200
        except (ConnectionError, AssertionError):
            return False

    eventually(welcome, "room for a new connection")


def test_connections_reset_in_the_middle(server):
    for data in (b"", b"GET /v1", GET_TIME, GET_TIME * 50):
        for _ in range(20):
            conn = server.conn()
            conn.send(data)
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            conn.close()
    assert server.get("/v1/time").status == 200


def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


@pytest.mark.skipif("/asan/" in sluicelib.BINARY, reason="the sanitizer's memory is not the server's")
def test_ten_thousand_idle_connections_cost_little_memory(make_server):
    """Under 10 MB together, each after a request of its own: they keep a slot, no buffer."""
    count = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 500:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = make_server(sets=["server.threads=2", "http.idle_timeout_ms=600000"])
    server.get("/v1/time")
    before = resident_kib(server)
    request = request_bytes("GET", "/v1/time")
    sockets = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection(server.address))
        for one in sockets:
            one.sendall(request)
        for one in sockets:
            assert one.recv(4096).startswith(b"HTTP/1.1 200")
        grown = resident_kib(server) - before
        assert grown < 10_000, f"{grown} KiB"
        assert server.get("/v1/time").status == 200
    finally:
        for one in sockets:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
