"""The 33 cases of h1spec, a public suite of HTTP/1.1 conformance (github.com/uNetworking/h1spec), as a
table of our own.

Its server echoes every body on every path; ours has fixed paths. So a case that wants 200 asks
/v1/time, and one that wants its body back asks for a ticket: that takes {} and nothing like it, and
the next request on the connection shows where the body ended.
"""
import pytest

from sluicelib import problem

HOST = b"Host: example.com\r\n"
LINE = b"GET /v1/time HTTP/1.1\r\n"


# ---------------------------------------------------------------- fragments: the server waits

# The bytes of one request up to here; whatever it is cut in, no byte of an answer may come before
# its last one.
FRAGMENTS = {
    "method": b"G",
    "a space behind the method": b"GET ",
    "target": b"GET /v1/time",
    "a space behind the target": b"GET /v1/time ",
    "version, its name only": b"GET /v1/time HTTP",
    "request line": b"GET /v1/time HTTP/1.1",
    "request line and CR": b"GET /v1/time HTTP/1.1\r",
    "request line and CR LF": LINE,
    "half a field name": LINE + b"Hos",
    "field name and colon": LINE + b"Host:",
    "field name, colon, space": LINE + b"Host: ",
    "field value": LINE + b"Host: localhost",
    "field value and CR": LINE + b"Host: localhost\r",
    "field line": LINE + b"Host: localhost\r\n",
    "all but the last LF": LINE + b"Host: localhost\r\n\r",
}
WHOLE = LINE + b"Host: localhost\r\n\r\n"


@pytest.mark.parametrize("fragment", FRAGMENTS.values(), ids=FRAGMENTS)
def test_a_fragment_is_waited_for(server, fragment):
    """h1spec waits half a second for silence. Here the rest is sent once the server has read the
    fragment (it has answered another connection since), and exactly one answer comes."""
    assert WHOLE.startswith(fragment)
    with server.conn() as conn:
        conn.send(fragment)
        for _ in range(3):
            assert server.get("/v1/time").status == 200
        conn.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            conn.sock.recv(1)
        conn.sock.setblocking(True)
        conn.send(WHOLE[len(fragment):])
        assert conn.read_response().status == 200
        conn.half_close()
        assert conn.closed()


# ---------------------------------------------------------------- requests that are answered

ANSWERED = {
    "a plain GET": LINE + HOST + b"\r\n",
    "odd case, a tab, an empty field": LINE + b"hoSt:\texample.com\r\nempty:\r\n\r\n",
    "an empty field value": LINE + HOST + b"X-Empty-Header: \r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", ANSWERED.values(), ids=ANSWERED)
def test_a_valid_request_is_answered(server, request_bytes):
    with server.conn() as conn:
        conn.send(request_bytes)
        assert conn.read_response().status == 200


def test_an_expectation_is_answered(server):
    """100 first, or the final answer at once: there is no body to wait for."""
    with server.conn() as conn:
        conn.send(LINE + HOST + b"Expect: 100-continue\r\n\r\n")
        response = conn.read_response(interim=True)
        assert response.status in (100, 200)


# ---------------------------------------------------------------- bodies

BODIES = {
    "a body with a length": (b"Content-Length: %d\r\n", lambda body: body),
    "a chunked body": (b"Transfer-Encoding: chunked\r\n",
                       lambda body: b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)),
}


@pytest.mark.parametrize("head,framed", BODIES.values(), ids=BODIES)
def test_a_body_arrives_whole(server, shop, head, framed):
    item = shop.lot().item
    head = head.replace(b"%d", b"2")
    with server.conn() as conn:
        request = (b"POST /v1/items/%d/ticket HTTP/1.1\r\n" % item + HOST
                   + b"Authorization: Bearer " + server.token(shop.user()).encode()
                   + b"\r\nContent-Type: application/json\r\n" + head + b"\r\n")
        conn.send(request + framed(b"{}"))
        assert conn.read_response().status == 201    # exactly these two bytes are a body
        conn.send(request + framed(b"{!"))
        problem(conn.read_response(), 400, "bad_request")
        conn.send(LINE + HOST + b"\r\n")    # the next request begins where the body ended
        assert conn.read_response().status == 200


# ---------------------------------------------------------------- requests that are refused

REFUSED = {
    "no version": (b"GET /v1/time \r\n\r\n", range(400, 600)),
    "a field name with brackets": (LINE + HOST + b"X-Invalid[]: test\r\n\r\n", range(400, 500)),
    "no Host": (LINE + b"Content-Length: 5\r\n\r\n", range(400, 500)),
    "two Hosts": (LINE + HOST + b"Host: example.org\r\n\r\n", range(400, 500)),
    "a negative length beyond all numbers":
        (LINE + HOST + b"Content-Length: -123456789123456789123456789\r\n\r\n", range(400, 500)),
    "a negative length": (LINE + HOST + b"Content-Length: -1234\r\n\r\n", range(400, 500)),
    "a length that is no number": (LINE + HOST + b"Content-Length: abc\r\n\r\n", range(400, 500)),
    "a control character in a value":
        (LINE + HOST + b"X-Bad-Control-Char: test\x07\r\n\r\n", range(400, 500)),
    "a version that does not exist": (b"GET /v1/time HTTP/9.9\r\n" + HOST + b"\r\n", range(400, 600)),
    "words before the method": (b"Extra line" + LINE + HOST + b"\r\n", range(400, 600)),
    "CR without LF where the head ends":
        (LINE + HOST + b"\r\rSome-Header: Test\r\n\r\n", range(400, 500)),
    # RFC 9112 6.1 lets a server take Transfer-Encoding alone; this one refuses both together.
    "a length and chunks":
        (b"POST /v1/payments HTTP/1.1\r\n" + HOST + b"content-LengtH: 5\r\nTransFer-Encoding: chunked"
         b"\r\n\r\nc\r\nHellO world1\r\n0\r\n\r\n", range(400, 500)),
}


@pytest.mark.parametrize("data,statuses", REFUSED.values(), ids=REFUSED)
def test_an_invalid_request_is_refused_and_ends_the_connection(server, data, statuses):
    with server.conn() as conn:
        conn.try_send(data)
        response = conn.read_response()
        problem(response, tuple(statuses))
        assert response.status != 408, "it was taken for the beginning of a request"
        assert response.closes
        conn.half_close()
        assert conn.closed()
    assert server.get("/v1/time").status == 200


def test_all_33_cases_are_here():
    assert len(FRAGMENTS) + len(ANSWERED) + 1 + len(BODIES) + len(REFUSED) == 33
