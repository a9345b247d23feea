"""Well-formed HTTP/1.1 in every shape a client may send it: all of it must work."""
import pytest

from sluicelib import compact, problem, request_bytes

SERVER = dict(sets=["server.threads=2"])
GET_TIME = b"GET /v1/time HTTP/1.1\r\nHost: x\r\n\r\n"


def chunked(body, sizes):
    """The body in chunks of these sizes (the last repeats), strictly framed."""
    out, at, n = b"", 0, 0
    while at < len(body):
        piece = body[at:at + sizes[min(n, len(sizes) - 1)]]
        out += b"%x\r\n%s\r\n" % (len(piece), piece)
        at, n = at + len(piece), n + 1
    return out + b"0\r\n\r\n"


def create_request(server, shop, framing, body_bytes):
    return (b"POST /v1/admin/sales HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
            + server.admin_token.encode() + b"\r\nContent-Type: application/json\r\n" + framing
            + b"\r\n\r\n" + body_bytes)


# ---------------------------------------------------------------- keep-alive and pipelining

def test_one_connection_many_requests(server):
    with server.conn() as conn:
        for _ in range(200):
            conn.send(GET_TIME)
            response = conn.read_response()
            assert response.status == 200 and not response.closes


@pytest.mark.asan
@pytest.mark.parametrize("count", [2, 50, 1000])
def test_pipelined_requests_are_answered_in_order(server, shop, count):
    """Every third request is another kind of call, so that order shows."""
    items = [shop.lot().item for _ in range(5)]
    wanted, sent = [], []
    for n in range(count):
        if n % 3 == 0:
            sent.append(b"GET /v1/items/%d HTTP/1.1\r\nHost: x\r\n\r\n" % items[n % 5])
            wanted.append(lambda r, n=n: r.json()["id"] == items[n % 5])
        elif n % 3 == 1:
            sent.append(b"GET /v1/nothing/%d HTTP/1.1\r\nHost: x\r\n\r\n" % n)
            wanted.append(lambda r: r.status == 404)
        else:
            sent.append(b"GET /v1/me/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                        + server.token(7).encode() + b"\r\n\r\n")
            wanted.append(lambda r: r.json()["orders"] == [])
    with server.conn() as conn:
        conn.send(b"".join(sent))
        for check in wanted:
            response = conn.read_response()
            assert check(response), response
        conn.half_close()
        assert conn.closed()


def test_pipelined_requests_after_a_waiting_one_wait_their_turn(server, shop):
    lot = shop.lot()
    user = shop.user()
    order = shop.order_locked(user, lot.item)["order_id"]
    poll = request_bytes("GET", f"/v1/orders/{order}?wait_ms=30000&status=LOCKED",
                         {"Authorization": f"Bearer {server.token(user)}"})
    with server.conn() as conn:
        conn.send(poll + GET_TIME * 3)
        shop.cancelled(user, order)
        assert conn.read_response().json()["status"] == "CANCELLED"
        for _ in range(3):
            assert "now_ms" in conn.read_response().json()


def test_requests_split_across_writes_anywhere(server, shop):
    lot = shop.lot()
    one = b"GET /v1/items/%d HTTP/1.1\r\nHost: x\r\nX-Filler: abc\r\n\r\n" % lot.item
    three = one * 3
    with server.conn() as conn:
        for cut in range(1, len(three)):
            conn.send(three[:cut])
            conn.send(three[cut:])
            for _ in range(3):
                assert conn.read_response().json()["id"] == lot.item


@pytest.mark.asan
def test_a_request_with_a_body_byte_by_byte(server, shop):
    lot = shop.lot(total=5, limit=0)
    user = shop.user()
    ticket = shop.ticket(user, lot.item)
    with server.conn() as conn:
        conn.send_split(request_bytes("POST", ticket["buy_url"],
                                      {"Authorization": f"Bearer {server.token(user)}",
                                       "Content-Type": "application/json"}, b'{"qty":2}'))
        response = conn.read_response()
        assert response.status == 202 and response.json()["order_id"] == ticket["order_id"]
        conn.send_split(GET_TIME * 2, 7)
        assert [conn.read_response().status for _ in range(2)] == [200, 200]


def test_half_closed_after_the_request_is_still_answered(server):
    with server.conn() as conn:
        conn.send(GET_TIME * 3).half_close()
        assert [r.status for r in conn.responses_to_close()] == [200, 200, 200]


def test_connection_close_is_obeyed(server):
    for value in ("close", "Close", "keep-alive, close", "close, x"):
        with server.conn() as conn:
            conn.send(f"GET /v1/time HTTP/1.1\r\nHost: x\r\nConnection: {value}\r\n\r\n".encode()
                      + GET_TIME)
            assert conn.read_response().status == 200
            assert conn.closed(), "nothing after Connection: close may be answered"


def test_connection_close_on_a_refusal_is_obeyed(server):
    with server.conn() as conn:
        conn.send("GET /v1/items/999999999 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        problem(conn.read_response(), 404, "no_such_item")
        assert conn.closed()


def test_empty_lines_before_a_request_are_skipped(server):
    with server.conn() as conn:
        conn.send(b"\r\n" + GET_TIME)
        assert conn.read_response().status == 200


def test_many_connections_at_once(server):
    conns = [server.conn() for _ in range(300)]
    try:
        for conn in conns:
            conn.send(GET_TIME)
        for conn in conns:
            assert conn.read_response().status == 200
    finally:
        for conn in conns:
            conn.close()


def test_connections_come_and_go(server):
    for _ in range(300):
        with server.conn() as conn:
            conn.send(GET_TIME)
            assert conn.read_response().status == 200


def test_a_client_that_vanishes_harms_nobody(server):
    for partial in (b"", b"G", b"GET /v1/time HTTP/1.1\r\n", GET_TIME[:-1], GET_TIME):
        for _ in range(20):
            with server.conn() as conn:
                conn.send(partial)
    assert server.get("/v1/time").status == 200


def test_a_client_that_does_not_read_harms_nobody(server):
    """Megabytes of answers to one that takes none: the server must not grow or stall for it."""
    with server.conn(timeout_s=2) as deaf:
        request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        try:
            for _ in range(20_000):
                deaf.sock.send(request * 10)
        except (TimeoutError, ConnectionError):
            pass
        for _ in range(20):
            assert server.get("/v1/time").status == 200


# ---------------------------------------------------------------- targets and headers

@pytest.mark.parametrize("target", ["/v1/time", "/v1/time?", "/v1/time?x=1&y", "/v1/time?a/b?c"])
def test_targets_with_a_query(server, target):
    assert server.get(target).status == 200


def test_the_absolute_form_is_accepted(server):
    with server.conn() as conn:
        conn.send(f"GET http://127.0.0.1:{server.port}/v1/time HTTP/1.1\r\n"
                  f"Host: 127.0.0.1:{server.port}\r\n\r\n")
        assert conn.read_response().status == 200


def test_header_names_have_no_case_and_values_no_outer_space(server, shop):
    lot = shop.lot(total=5, limit=0)
    user = shop.user()
    ticket = shop.ticket(user, lot.item)
    with server.conn() as conn:
        conn.send(f"POST {ticket['buy_url']} HTTP/1.1\r\nhOST:x\r\n"
                  f"aUTHORIZATION: \t Bearer {server.token(user)} \t\r\n"
                  "CONTENT-TYPE:application/json\r\ncontent-LENGTH: 9\r\nX-Empty:\r\n\r\n"
                  '{"qty":3}')
        assert conn.read_response().status == 202
    assert shop.counters(lot.item) == (2, 3, 0)


def test_strange_but_legal_headers_are_no_harm(server):
    with server.conn() as conn:
        conn.send(b"GET /v1/time HTTP/1.1\r\nHost: x\r\n!#$%&'*+-.^_`|~1: x\r\n"
                  b"X-Text: \xe4\xb8\xad caf\xe9 \"q\" : ; , ?\r\nAccept: */*\r\n"
                  b"Cookie: a=b; c=d\r\nReferer: https://shop.example/x?y=z\r\n\r\n")
        assert conn.read_response().status == 200


def test_a_realistic_browser_request_fits(server):
    filler = "".join(f"X-Browser-Header-{n}: {'v' * 60}\r\n" for n in range(25))
    with server.conn() as conn:
        conn.send(f"GET /v1/time HTTP/1.1\r\nHost: x\r\nCookie: {'c' * 1000}\r\n{filler}\r\n")
        assert conn.read_response().status == 200


def test_options_for_the_whole_server(server):
    with server.conn() as conn:
        conn.send(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
        assert conn.read_response().status in (200, 204, 400, 404, 405)


# ---------------------------------------------------------------- bodies

@pytest.mark.asan
@pytest.mark.parametrize("sizes", [[1], [2, 1, 30, 5], [7], [10_000]], ids=repr)
def test_chunked_bodies(server, shop, sizes):
    body = compact(shop.sale_json())
    with server.conn() as conn:
        conn.send(create_request(server, shop, b"Transfer-Encoding: chunked",
                                 chunked(body, sizes)) + GET_TIME)
        assert conn.read_response().status == 201
        assert "now_ms" in conn.read_response().json()


def test_chunked_bodies_byte_by_byte(server, shop):
    body = compact(shop.sale_json())
    with server.conn() as conn:
        conn.send_split(create_request(server, shop, b"transfer-encoding: Chunked",
                                       chunked(body, [50])) + GET_TIME)
        assert conn.read_response().status == 201
        assert "now_ms" in conn.read_response().json()


def test_chunk_sizes_in_any_case_with_zeros(server, shop):
    body = compact(shop.sale_json(name="x" * 100)) + b" " * 200
    cut = 0xAB
    framed = (b"00%X\r\n%s\r\n" % (cut, body[:cut])
              + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body) - cut, body[cut:]))
    with server.conn() as conn:
        conn.send(create_request(server, shop, b"Transfer-Encoding: chunked", framed))
        assert conn.read_response().status == 201


def test_an_empty_chunked_body_is_no_body(server, shop):
    lot = shop.lot(total=5)
    user = shop.user()
    ticket = shop.ticket(user, lot.item)
    with server.conn() as conn:
        conn.send(f"POST {ticket['buy_url']} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                  f"{server.token(user)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode()
                  + GET_TIME)
        assert conn.read_response().status == 202
        assert "now_ms" in conn.read_response().json()


def test_trailers_and_extensions_are_read_or_refused_but_never_lose_the_place(server, shop):
    body = compact(shop.sale_json())
    for framed in (b"%x;a=b;c=\"d\"\r\n%s\r\n0\r\n\r\n" % (len(body), body),
                   b"%x\r\n%s\r\n0\r\nX-Trailer: y\r\n\r\n" % (len(body), body),
                   b"%x\r\n%s\r\n0\r\nContent-Length: 5\r\n\r\n" % (len(body), body)):
        with server.conn() as conn:
            conn.send(create_request(server, shop, b"Transfer-Encoding: chunked", framed)
                      + GET_TIME)
            response = conn.read_response()
            if response.status == 201:
                assert "now_ms" in conn.read_response().json()
            else:
                problem(response, (400, 431))
                assert conn.closed()


def test_a_body_nobody_asked_for_is_read_and_not_taken_for_a_request(server):
    with server.conn() as conn:
        conn.send(b"GET /v1/time HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                  % (len(GET_TIME), GET_TIME) + b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        first = conn.read_response()
        assert first.status in (200, 400, 413, 415), first
        if first.status == 200:
            assert "now_ms" in first.json()
            second = conn.read_response()
            assert second.status == 200 and b"now_ms" not in second.body
            conn.half_close()
        assert conn.closed(), "the body was answered"


def test_a_body_on_a_refused_call_is_not_taken_for_a_request(server):
    with server.conn() as conn:
        conn.send(request_bytes("POST", "/v1/nothing", {"Content-Type": "application/json"},
                                GET_TIME))
        conn.send(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        conn.half_close()
        answers = conn.responses_to_close()
        problem(answers[0], 404, "not_found")
        assert len(answers) <= 2 and all(b"now_ms" not in a.body for a in answers)


# ---------------------------------------------------------------- Expect

@pytest.mark.asan
def test_expect_continue_is_told_to_go_on(server, shop):
    body = compact(shop.sale_json())
    framing = b"Expect: 100-continue\r\nContent-Length: %d" % len(body)
    with server.conn() as conn:
        conn.send(create_request(server, shop, framing, b""))
        response = conn.read_response(interim=True)
        assert response.status == 100, response
        conn.send(body)
        assert conn.read_response(interim=True).status == 201
        conn.send(GET_TIME)
        assert conn.read_response(interim=True).status == 200


def test_expect_continue_with_a_chunked_body(server, shop):
    body = compact(shop.sale_json())
    with server.conn() as conn:
        framing = b"expect: 100-Continue\r\nTransfer-Encoding: chunked"
        conn.send(create_request(server, shop, framing, b""))
        assert conn.read_response(interim=True).status == 100
        conn.send(chunked(body, [100]))
        assert conn.read_response(interim=True).status == 201


def test_expect_continue_with_the_body_already_sent(server, shop):
    body = compact(shop.sale_json())
    framing = b"Expect: 100-continue\r\nContent-Length: %d" % len(body)
    with server.conn() as conn:
        conn.send(create_request(server, shop, framing, body) + GET_TIME)
        assert conn.read_response().status == 201
        assert "now_ms" in conn.read_response().json()


def test_expect_continue_for_far_too_much_is_refused_before_it_comes(server, shop):
    framing = b"Expect: 100-continue\r\nContent-Length: 4000000000"
    with server.conn() as conn:
        conn.send(create_request(server, shop, framing, b""))
        problem(conn.read_response(interim=True), 413, "too_large")
        assert conn.closed()


def test_expect_without_a_body_is_no_harm(server):
    with server.conn() as conn:
        conn.send(b"GET /v1/time HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n")
        assert conn.read_response().status == 200


def test_another_expectation(server):
    with server.conn() as conn:
        conn.send(b"GET /v1/time HTTP/1.1\r\nHost: x\r\nExpect: a-miracle\r\n\r\n")
        assert conn.read_response().status in (200, 417)


# ---------------------------------------------------------------- other protocols, politely

def test_http_1_0_is_answered_and_closed(server):
    with server.conn() as conn:
        conn.send(b"GET /v1/time HTTP/1.0\r\n\r\n")
        response = conn.read_response()
        if response.status != 200:
            problem(response, (400, 505))
        assert conn.closed()


def test_http_1_0_never_gets_chunks(server, shop):
    lot = shop.lot()
    with server.conn() as conn:
        conn.send(f"GET /v1/items/{lot.item}/events HTTP/1.0\r\nHost: x\r\n\r\n")
        response = conn.read_head()
        assert response.get("transfer-encoding") is None


@pytest.mark.parametrize("headers", [
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n"
    "Sec-WebSocket-Version: 13\r\n",
    "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n",
    "Upgrade: TLS/1.0\r\nConnection: upgrade\r\n", "Connection: upgrade\r\n", "Upgrade: x\r\n"])
def test_an_upgrade_is_not_taken_up(server, headers):
    """The answer is the ordinary one, and so is the next; never 101, never silence."""
    with server.conn() as conn:
        conn.send(f"GET /v1/time HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode() + GET_TIME)
        first = conn.read_response(interim=True)
        if first.status == 200:
            assert "now_ms" in conn.read_response().json()
        else:
            problem(first, (400, 501))
            assert conn.closed()


def test_an_upgrade_with_a_body_reads_the_body(server, shop):
    body = compact(shop.sale_json())
    framing = b"Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: %d" % len(body)
    with server.conn() as conn:
        conn.send(create_request(server, shop, framing, body) + GET_TIME)
        first = conn.read_response(interim=True)
        if first.status == 201:
            assert "now_ms" in conn.read_response().json()
        else:
            problem(first, (400, 501))
            assert conn.closed()
