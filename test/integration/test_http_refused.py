"""Malformed framing: one refusal, then the connection ends, and nothing hidden is ever answered."""
import pytest

from sluicelib import framing_refusal, problem

HIDDEN = b"GET /v1/time HTTP/1.1\r\nHost: hidden\r\n\r\n"


def refuse(server, data, statuses=(400,)):
    """Send exactly this and a hidden request behind it: one refusal, closed, nothing else."""
    with server.conn() as conn:
        conn.try_send(data + HIDDEN)
        response = framing_refusal(conn, statuses)
    assert server.get("/v1/time").status == 200
    return response


def post(headers, body=b"", target=b"/v1/payments"):
    return b"POST " + target + b" HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\n" + body


# ---------------------------------------------------------------- request lines

@pytest.mark.parametrize("line", [
    b"GET", b"GET /v1/time", b" GET /v1/time HTTP/1.1", b"GET\t/v1/time\tHTTP/1.1",
    b"GET /v1/time HTTP/1.1 ",
    b"GET /v1/time HTTP/1.1 x", b"GET /v1/ time HTTP/1.1", b"GET HTTP/1.1", b"/v1/time",
    b"GET v1/time HTTP/1.1", b"GET /v1/time http/1.1", b"GET /v1/time HTTP/11",
    b"GET /v1/time HTTP/1", b"GET /v1/time HTTP/1.", b"GET /v1/time HTTP/.1",
    b"GET /v1/time HTTP/1.1.1", b"GET /v1/time HTTPS/1.1", b"GET /v1/time FTP/1.1",
    b"GET /v1/time HTTP/1.x", b"GET /v1/ti\0me HTTP/1.1", b"GET /v1/ti\x01me HTTP/1.1",
    b"GET /v1/ti\x7fme HTTP/1.1", b"G\0T /v1/time HTTP/1.1", b"get /v1/time HTTP/1.1",
    b"GE T /v1/time HTTP/1.1", b"G@T /v1/time HTTP/1.1", b"\x16\x03\x01\x02\x00\x01\x00",
    b"GET /v1/time HTTP/1.1\r", b"GET /v1/time\rHTTP/1.1"], ids=repr)
def test_request_lines_that_are_none(server, line):
    refuse(server, line + b"\r\nHost: x\r\n\r\n", (400, 501, 505))


@pytest.mark.parametrize("line", [b"GET  /v1/time HTTP/1.1", b"GET /v1/time  HTTP/1.1"], ids=repr)
def test_more_than_one_space_is_refused_or_read_as_one(server, line):
    """RFC 9112 lets a server do either; it must not do anything else."""
    with server.conn() as conn:
        conn.try_send(line + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
        answers = conn.responses_to_close()
        assert len(answers) == 1
        if answers[0].status != 200:
            problem(answers[0], 400, "bad_request")


@pytest.mark.parametrize("version", [b"HTTP/0.9", b"HTTP/2.0", b"HTTP/3.0", b"HTTP/9.9",
                                     b"HTTP/1.10", b"HTTP/2"])
def test_other_versions(server, version):
    refuse(server, b"GET /v1/time " + version + b"\r\nHost: x\r\n\r\n", (400, 505))


def test_the_http_2_preface(server):
    with server.conn() as conn:
        conn.try_send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        framing_refusal(conn, (400, 405, 501, 505))


@pytest.mark.parametrize("method", [b"BREW", b"XGET", b"GETX", b"X" * 100, b"PRI", b"DESCRIBE",
                                    b"PLAY", b"SETUP", b"ANNOUNCE", b"REDIRECT", b"SOURCE",
                                    b"FLUSH", b"TEARDOWN"])
def test_methods_that_are_not_https(server, method):
    with server.conn() as conn:
        conn.try_send(method + b" /v1/time HTTP/1.1\r\nHost: x\r\n\r\n")
        response = conn.read_response()
        problem(response, (400, 405, 501, 505))
        if response.status != 405:
            assert response.closes and conn.closed()
    assert server.get("/v1/time").status == 200


@pytest.mark.parametrize("method", [b"TRACE", b"PROPFIND", b"LOCK", b"M-SEARCH", b"PURGE", b"LINK"])
def test_methods_of_others_are_refused(server, method):
    """Registered elsewhere, unused here: 405, 501 or 400, and the hidden request is a new one."""
    with server.conn() as conn:
        conn.send(method + b" /v1/time HTTP/1.1\r\nHost: x\r\nX-Echo: secret\r\n\r\n")
        response = conn.read_response()
        problem(response, (400, 405, 501))
        assert b"secret" not in response.body


@pytest.mark.parametrize("target", [b"127.0.0.1:80", b"example.com:443", b"/v1/time"])
def test_connect_opens_no_tunnel(server, target):
    with server.conn() as conn:
        conn.try_send(b"CONNECT " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        response = conn.read_response()
        problem(response, (400, 405, 501))


# ---------------------------------------------------------------- headers

@pytest.mark.parametrize("headers", [
    b"", b"Hosst: x", b"X: y", b"Host: x\r\nHost: x", b"Host: x\r\nHost: y",
    b"Host: x\r\nhost: evil", b"Host : x", b"Host\t: x", b" Host: x", b"\tHost: x",
    b"Host: x\r\n X-Folded: y", b"Host: x\r\nX: a\r\n b", b"Host: x\r\nX: a\r\n\tb",
    b"Host: x\r\nX-A : b", b"Host: x\r\nX A: b", b"Host: x\r\n: b", b"Host: x\r\nnocolon",
    b"Host: x\r\nX@A: b", b"Host: x\r\nX\0: b", b"Host: x\r\nX: a\0b", b"Host: x\0",
    b"Host: x\r\nX: a\x01b", b"Host: x\r\nX: a\x7fb", b"Host: x\r\nX: a\rb",
    b"Host: x\r\nX\xe9: b", b"Host: x\r\n\"X\": b", b"Host: x\r\n(X): b"], ids=repr)
def test_headers_that_are_none(server, headers):
    refuse(server, b"GET /v1/time HTTP/1.1\r\n" + headers + b"\r\n\r\n")


@pytest.mark.parametrize("data", [
    b"GET /v1/time HTTP/1.1\nHost: x\n\n", b"GET /v1/time HTTP/1.1\r\nHost: x\n\n",
    b"GET /v1/time HTTP/1.1\r\nHost: x\r\nX: y\n\r\n", b"GET /v1/time HTTP/1.1\nHost: x\r\n\r\n",
    b"GET /v1/time HTTP/1.1\r\nHost: x\r\n\n", b"GET /v1/time HTTP/1.1\r\nHost: x\r\n\rX",
    b"GET /v1/time HTTP/1.1\rHost: x\r\r"], ids=repr)
def test_line_ends_that_are_none(server, data):
    refuse(server, data)


@pytest.mark.parametrize("name", [b"Authorization", b"Content-Type"])
def test_what_may_come_once_may_not_come_twice(server, shop, name):
    value = {b"Authorization": b"Bearer " + server.token(7).encode(),
             b"Content-Type": b"application/json"}[name]
    with server.conn() as conn:
        conn.send(b"GET /v1/me/orders HTTP/1.1\r\nHost: x\r\n" + name + b": " + value + b"\r\n"
                  + name + b": other\r\n\r\n")
        problem(conn.read_response(), (400, 401))


# ---------------------------------------------------------------- which body is it? (smuggling)

BODY = b"0\r\n\r\n"

SMUGGLING = {
    "both": b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    "both-other-order": b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    "both-zero": b"Content-Length: 0\r\nTransfer-Encoding: chunked",
    "both-identity": b"Content-Length: 5\r\nTransfer-Encoding: identity",
    "two-lengths": b"Content-Length: 5\r\nContent-Length: 6",
    "two-lengths-far-apart": b"Content-Length: 0\r\nX: y\r\nContent-Length: 5",
    "two-lengths-in-one": b"Content-Length: 5, 6",
    "length-plus": b"Content-Length: +5",
    "length-minus": b"Content-Length: -5",
    "length-minus-zero": b"Content-Length: -0",
    "length-hex": b"Content-Length: 0x5",
    "length-fraction": b"Content-Length: 5.0",
    "length-empty": b"Content-Length:",
    "length-space": b"Content-Length: 5 5",
    "length-word": b"Content-Length: five",
    "length-letter": b"Content-Length: 5a",
    "length-underscore": b"Content-Length: 5_0",
    "length-overflow": b"Content-Length: 18446744073709551621",
    "length-overflow-63": b"Content-Length: 9223372036854775813",
    "length-huge": b"Content-Length: " + b"9" * 100,
    "length-space-colon": b"Content-Length : 5",
    "length-vertical-tab": b"Content-Length: \x0b5",
    "te-identity": b"Transfer-Encoding: identity",
    "te-gzip": b"Transfer-Encoding: gzip",
    "te-gzip-chunked": b"Transfer-Encoding: gzip, chunked",
    "te-chunked-gzip": b"Transfer-Encoding: chunked, gzip",
    "te-chunked-identity": b"Transfer-Encoding: chunked, identity",
    "te-twice-in-one": b"Transfer-Encoding: chunked, chunked",
    "te-twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "te-twice-identity": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "te-identity-first": b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    "te-xchunked": b"Transfer-Encoding: xchunked",
    "te-chunkedx": b"Transfer-Encoding: chunkedx",
    "te-quoted": b"Transfer-Encoding: \"chunked\"",
    "te-semicolon": b"Transfer-Encoding: chunked;x=y",
    "te-vertical-tab": b"Transfer-Encoding: \x0bchunked",
    "te-space-colon": b"Transfer-Encoding : chunked",
    "te-folded": b"Transfer-Encoding:\r\n chunked",
    "te-folded-x": b"X: y\r\n Transfer-Encoding: chunked",
    "te-empty": b"Transfer-Encoding:",
    "te-nul": b"Transfer-Encoding: chunked\0",
    "te-underscore-both": b"Transfer_Encoding: chunked\r\nContent-Length: 5\r\nContent-Length: 0",
    "te-cr": b"Transfer-Encoding: chun\rked",
}


@pytest.mark.asan
@pytest.mark.parametrize("name", SMUGGLING)
def test_bodies_of_doubtful_length_are_refused(server, name):
    refuse(server, post(SMUGGLING[name], BODY), (400, 413, 501))


@pytest.mark.parametrize("name", ["both", "both-other-order", "two-lengths"])
def test_the_plain_two_framing_cases_are_400_exactly(server, name):
    response = refuse(server, post(SMUGGLING[name], BODY), (400,))
    problem(response, 400, "bad_request")


def test_the_same_length_twice_is_refused_or_read_as_one(server):
    for headers in (b"Content-Length: 5\r\nContent-Length: 5", b"Content-Length: 5, 5"):
        with server.conn() as conn:
            conn.try_send(post(headers, BODY) + HIDDEN)
            conn.half_close()
            answers = conn.responses_to_close()
            if answers[0].status == 400:
                assert len(answers) == 1
            else:
                problem(answers[0], 401, "bad_signature")
                assert len(answers) == 2 and "now_ms" in answers[1].json()


CHUNKS = {
    "overflow": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "overflow-63": b"8000000000000000\r\nhello\r\n0\r\n\r\n",
    "minus": b"-5\r\nhello\r\n0\r\n\r\n",
    "plus": b"+5\r\nhello\r\n0\r\n\r\n",
    "0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "space-before": b" 5\r\nhello\r\n0\r\n\r\n",
    "space-after": b"5 \r\nhello\r\n0\r\n\r\n",
    "letters": b"zz\r\nhello\r\n0\r\n\r\n",
    "empty": b"\r\nhello\r\n0\r\n\r\n",
    "no-crlf-after-data": b"5\r\nhello0\r\n\r\n",
    "lf-after-data": b"5\r\nhello\n0\r\n\r\n",
    "lf-after-size": b"5\nhello\r\n0\r\n\r\n",
    "cr-after-size": b"5\rhello\r\n0\r\n\r\n",
    "too-long-data": b"4\r\nhello\r\n0\r\n\r\n",
    "too-short-data": b"6\r\nhello\r\n0\r\n\r\n",
    "lf-in-extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "nul-in-extension": b"5;a\0b\r\nhello\r\n0\r\n\r\n",
    "lf-at-end": b"5\r\nhello\r\n0\n\n",
    "trailer-lf": b"5\r\nhello\r\n0\r\nX: y\n\r\n",
    "trailer-space-colon": b"5\r\nhello\r\n0\r\nX : y\r\n\r\n",
    "trailer-fold": b"5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n",
}


@pytest.mark.asan
@pytest.mark.parametrize("name", CHUNKS)
def test_broken_chunks_are_refused(server, name):
    refuse(server, post(b"Transfer-Encoding: chunked", CHUNKS[name]), (400, 413))


def test_chunked_from_http_1_0_hides_nothing(server):
    with server.conn() as conn:
        conn.try_send(b"POST /v1/payments HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                      + BODY + HIDDEN)
        assert len(conn.responses_to_close()) == 1


def test_requests_before_a_malformed_one_are_answered_and_none_after(server):
    with server.conn() as conn:
        conn.try_send(HIDDEN * 3 + post(SMUGGLING["both"], BODY) + HIDDEN * 3)
        answers = conn.responses_to_close()
        assert [a.status for a in answers] == [200, 200, 200, 400]
        problem(answers[-1], 400, "bad_request")


def test_a_chunked_body_is_no_way_around_the_ticket_check(server, shop):
    """A hidden buy inside a body: refused or read as a body, never executed."""
    lot = shop.lot(total=5, limit=0)
    user = shop.user()
    ticket = shop.ticket(user, lot.item)
    inner = (f"POST {ticket['buy_url']} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
             f"{server.token(user)}\r\n\r\n").encode()
    for headers, body in (
            (b"Content-Length: %d" % len(inner), inner),
            (b"Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)),
            (b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"0\r\n\r\n" + inner),
            (b"Content-Length: 0\r\nContent-Length: %d" % len(inner), inner),
            (b"Transfer-Encoding: chunked, identity\r\nContent-Length: 0", inner)):
        with server.conn() as conn:
            conn.try_send(post(headers, body))
            try:
                conn.half_close()
            except OSError:
                pass
            assert len(conn.responses_to_close()) == 1
    assert shop.counters(lot.item) == (5, 0, 0)
