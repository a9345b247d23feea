"""Clients that hold what others need: connections, buffers, unread answers. Honest ones must not
notice. Each test runs the attack while honest clients are served, and fails if it did not happen.
"""
import gzip
import re
import socket
import time

import pytest

from sluicelib import Conn, Shop, compact, eventually, problem, request_bytes, webhook_signature

GET_TIME = b"GET /v1/time HTTP/1.1\r\nHost: x\r\n\r\n"
HONEST_S = 10    # an honest client would have left; attackers hold what they have for minutes
PATIENT = ["server.threads=1", "http.idle_timeout_ms=600000", "http.header_timeout_ms=600000",
           "http.write_timeout_ms=600000"]


def metric(server, name):
    text = server.get("/metrics").body.decode()
    return int(re.search(rf"^{name} (\d+)", text, re.M)[1])


class Crowd(list):
    """Connections of attackers, closed at the end."""

    def __init__(self, server):
        super().__init__()
        self.server = server

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for one in self:
            one.close()

    def join(self, data=b"", receive=None):
        one = socket.socket()
        if receive:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        one.settimeout(HONEST_S)
        one.connect(self.server.address)
        one.sendall(data)
        self.append(one)
        return one


def served_anew(server):
    """An honest client with a connection of its own."""
    with Conn(server.address, HONEST_S) as conn:
        conn.send(GET_TIME)
        return conn.read_response().status == 200


# ---------------------------------------------------------------- connections

@pytest.mark.asan
@pytest.mark.parametrize("data", [b"", b"G"], ids=["silence", "one byte"])
def test_silent_connections_keep_nobody_out(make_server, data):
    server = make_server(sets=PATIENT + ["server.connections=256"])
    with Crowd(server) as crowd:
        for _ in range(400):
            crowd.join(data)
        for _ in range(50):
            crowd.join(data)
            assert served_anew(server)
        assert metric(server, "sluice_http_displaced_total") > 0
        assert metric(server, "sluice_http_connections") > 200, "the attack goes on"


@pytest.mark.asan
def test_clients_that_read_nothing_keep_nobody_out(make_server):
    """None of them is idle, and none has an incomplete request."""
    server = make_server(sets=PATIENT + ["server.connections=128"])
    with Crowd(server) as crowd:
        for _ in range(128):
            crowd.join(request_bytes("GET", "/") * 40, receive=4096)
        for _ in range(20):
            crowd.join(request_bytes("GET", "/") * 40, receive=4096)
            assert served_anew(server)
        assert metric(server, "sluice_http_slow_total") > 0
        assert metric(server, "sluice_http_connections") > 100, "the attack goes on"


def test_a_share_for_each_address(make_server):
    server = make_server(sets=PATIENT + ["server.connections=100", "server.address_share=50"])
    with Crowd(server) as crowd:
        for _ in range(60):
            one = socket.create_connection(server.address, HONEST_S, ("127.0.0.2", 0))
            crowd.append(one)
        closed = 0
        for one in crowd[50:]:
            try:
                closed += one.recv(1) == b""
            except ConnectionResetError:
                closed += 1
        assert closed == 10
        assert served_anew(server)    # from another address
        assert metric(server, "sluice_http_crowded_total") == 10


# ---------------------------------------------------------------- bodies

def slow_body(headers):
    return (b"POST /v1/payments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + headers
            + b"Content-Length: 200000\r\n\r\n{")


def large_sale(shop):
    items = [{"name": f"{shop.unique('item')} {'x' * 150}",
              "image_url": "https://shop.example/" + "y" * 150,
              "price_cents": 100, "total": 1, "limit_per_user": 1} for _ in range(400)]
    return compact(shop.sale_json(items=items))


@pytest.mark.asan
def test_slow_bodies_leave_operators_their_buffers(make_server):
    """Anonymous ones are refused from the head; ones with headers that could be right have buffers of
    their own. An operator's large sale arrives in two pieces meanwhile."""
    server = make_server(sets=PATIENT)
    shop = Shop(server)
    sale = large_sale(shop)
    assert len(sale) > 100_000
    plausible = (b"webhook-id: a\r\nwebhook-timestamp: %d\r\nwebhook-signature: v1,AAAA\r\n"
                 % time.time())
    head = request_bytes("POST", "/v1/admin/sales",
                         {"Authorization": f"Bearer {server.admin_token}",
                          "Content-Type": "application/json",
                          "Content-Length": str(len(sale))})
    with Crowd(server) as crowd:
        for _ in range(30):
            with Conn(server.address, HONEST_S) as operator:
                operator.send(head + sale[:50_000])
                for _ in range(20):
                    crowd.join(slow_body(b""))
                    crowd.join(slow_body(plausible))
                server.now_ms()    # they were read
                operator.send(sale[50_000:])
                assert operator.read_response().status == 201
        refused = Conn(server.address, HONEST_S)
        refused.send(slow_body(b"Expect: 100-continue\r\n"))
        problem(refused.read_response(), 401, "bad_signature")
        refused.close()


def test_a_large_body_of_a_buyer_is_refused_however_it_arrives(make_server):
    server = make_server()
    shop = Shop(server)
    lot, user = shop.lot(), shop.user()
    ticket = shop.ticket(user, lot.item)
    body = b'{"qty":1' + b" " * 20_000 + b"}"
    request = request_bytes("POST", ticket["buy_url"],
                            {"Authorization": f"Bearer {server.token(user)}",
                             "Content-Type": "application/json"}, body)
    for step in (len(request), 1000):
        with server.conn() as conn:
            for at in range(0, len(request), step):
                if not conn.try_send(request[at:at + step]):
                    break
                server.now_ms()
            problem(conn.read_response(), 413, "too_large")
    assert shop.bought(user, ticket)["order_id"] == ticket["order_id"]


@pytest.mark.parametrize("padding", [1, 20_000])
def test_a_signed_payment_in_pieces_is_taken(make_server, padding):
    """Whether it fits a small buffer or not."""
    server = make_server()
    shop = Shop(server)
    lot = shop.lot()
    order = shop.order_locked(shop.user(), lot.item)["order_id"]
    body = compact({"payment_id": shop.unique("pay"), "order_id": order,
                    "amount_cents": lot.price}) + b" " * padding
    now = str(int(time.time()))
    request = request_bytes("POST", "/v1/payments", {
        "Content-Type": "application/json", "webhook-id": "m", "webhook-timestamp": now,
        "webhook-signature": webhook_signature(server.secret_bytes("webhook.key"), "m", now, body)
    }, body)
    with server.conn() as conn:
        for at in range(0, len(request), 3000):
            conn.send(request[at:at + 3000])
            server.now_ms()
        response = conn.read_response()
        assert response.status == 200 and response.json()["status"] == "PAID"


# ---------------------------------------------------------------- unread answers

def test_an_answer_is_whole_or_refused_while_others_read_nothing(make_server):
    """Large answers that nobody reads hold buffers. What others get has all its bytes, or is a 503; and
    operators have buffers of their own."""
    server = make_server(sets=PATIENT + ["http.large_buffers=4"])
    shop = Shop(server)
    for _ in range(3):
        made = server.admin("POST", "/sales", large_sale(shop))
        assert made.status == 201
        shop.moved(made.json()["id"], "open")
    ask = request_bytes("GET", "/v1/sales")
    with Crowd(server) as crowd:
        for _ in range(20):
            for _ in range(4):
                crowd.join(ask, receive=4096)
            with Conn(server.address, HONEST_S) as conn:
                conn.send(ask)
                response = conn.read_response()    # fails if the body is cut
                assert response.status in (200, 503)
            listing = server.admin("GET", "/sales")
            assert listing.status == 200 and len(listing.body) > 300_000


@pytest.mark.asan
def test_requests_behind_unread_answers_leave_others_their_buffers(make_server):
    """Each attacker's request needs a large buffer, which the requests behind it fill again. An honest
    request of 6 KiB arrives in two pieces."""
    server = make_server(sets=PATIENT + ["http.large_buffers=4"])
    first = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 5000
    with Crowd(server) as crowd:
        for _ in range(8):
            attacker = crowd.join(first, receive=4096)
            server.now_ms()    # it was read
            attacker.sendall(b"\r\n\r\n" + request_bytes("GET", "/openapi.json") * 200)
        server.now_ms()

        def served():
            with Conn(server.address, HONEST_S) as conn:
                conn.send(first)
                for _ in range(2):    # the first may be answered before the connection is accepted
                    server.now_ms()
                conn.try_send(b"\r\n\r\n")
                return conn.read_response().status == 200
        eventually(served, guard_s=HONEST_S)
        assert metric(server, "sluice_http_slow_total") > 0


def kernel_bytes(port):
    """What the kernel holds to be sent by the server's connections: (connections, bytes)."""
    count = held = 0
    with open("/proc/net/tcp") as file:
        for line in file.readlines()[1:]:
            fields = line.split()
            if int(fields[1].split(":")[1], 16) == port and fields[3] == "01":
                count += 1
                held += int(fields[4].split(":")[0], 16)
    return count, held


def test_slow_readers_of_files_cost_the_kernel_little(make_server):
    server = make_server(sets=PATIENT)
    ask = request_bytes("GET", "/openapi.json")
    with Crowd(server) as crowd:
        for _ in range(200):
            crowd.join(ask, receive=4096)
        server.now_ms()
        count, held = kernel_bytes(server.port)
        assert count >= 200 and held > 0
        assert held / count < 50_000
        plain = server.get("/openapi.json")
        assert plain.status == 200 and len(plain.body) > 100_000


def test_unread_bytes_have_a_limit(make_server):
    """Above it, those who have read nothing for long give way; nobody's answer is cut."""
    server = make_server(sets=PATIENT + ["http.unsent_mib=1"])
    ask = request_bytes("GET", "/openapi.json")
    with Crowd(server) as crowd:
        for _ in range(40):
            crowd.join(ask, receive=4096)
        whole = 0
        end = time.monotonic() + HONEST_S
        while whole < 20 and time.monotonic() < end:
            crowd.join(ask, receive=4096)
            response = server.get("/openapi.json")
            assert response.status in (200, 503)
            whole += response.status == 200
        assert whole == 20
        assert metric(server, "sluice_http_unkept_total") > 0
        assert metric(server, "sluice_http_slow_total") > 0


def test_the_contract_is_sent_packed(make_server):
    server = make_server()
    plain = server.get("/openapi.json")
    packed = server.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert packed.get("content-encoding") == "gzip" and packed.get("vary") == "Accept-Encoding"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 4
    again = server.get("/openapi.json", headers={"Accept-Encoding": "gzip",
                                                 "If-None-Match": packed.get("etag")})
    assert again.status == 304
