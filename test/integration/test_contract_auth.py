"""Buyers' tokens: which JWTs are believed, which are not, and what the refusal looks like."""
import functools
import itertools
import json
import os
import random
import signal
import time

import pytest

from sluicelib import (Client, Conn, MAX_ID, Server, Shop, b64url, compact, ed25519_public, ed25519_sign,
                       hs256, mint, problem, request_bytes, sign_jwt, unb64url)

_addresses = (f"{random.randint(1, 254)}.{random.randint(0, 255)}.{random.randint(1, 254)}"
              for _ in itertools.count())
OLD_SEED, NEW_SEED, STRANGER = b"\1" * 32, b"\2" * 32, b"\3" * 32


@pytest.fixture(scope="module")
def server():
    """A server that knows two EdDSA keys besides its own HS256 secret."""
    made = Server()
    write_keys(made, old=OLD_SEED, new=NEW_SEED)
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.discard()


def write_keys(server, **seeds):
    os.makedirs(server.data, exist_ok=True)
    path = os.path.join(server.data, "jwt-eddsa.pub")
    with open(path, "w") as file:
        for kid, seed in seeds.items():
            file.write(f"{kid} {b64url(ed25519_public(seed))}\n")
    os.chmod(path, 0o600)


def key_of(server):
    return server.secret_bytes("jwt.key")


def accepted(server, token):
    response = server.get("/v1/me/orders", token)
    assert response.status == 200, response


def refused(server, token):
    """Each from an address of its own: failed signatures may be budgeted per address."""
    client = Client(server.address, f"127.{next(_addresses)}")
    try:
        response = client.call("GET", "/v1/me/orders", token=token)
    finally:
        client.close()
    problem(response, 401, "unauthenticated")


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def eddsa(kid, seed, **more):
    return mint(7, alg="EdDSA", key=seed, kid=kid, **more)


@functools.cache
def right_tokens(key):
    """{case: a token of user 7, or of the case's user}"""
    return {
        "the shared secret": mint(7, key=key),
        "the smallest user": mint(1, key=key),
        "the largest user": mint(MAX_ID, key=key),
        "an exp in ten minutes": mint(7, key=key, claims={"exp": int(time.time()) + 600}),
        "other claims": mint(7, key=key, claims={
            "iss": "shop", "aud": ["a", "b"], "iat": int(time.time()), "jti": "x\u00e9\"\\",
            "name": "李雷", "admin": True, "nothing": None, "deep": {"a": [1, {"b": -2.5e3}]}}),
        "a header of one member": sign_jwt({"alg": "HS256"}, {"sub": "7", "exp": 9999999999},
                                           hs256(key)),
        "other headers, and spaces": sign_jwt({"typ": "JWT", "alg": "HS256", "x5t": "abc"},
                                              b' {"exp" : 9999999999 , "sub" : "7" } ', hs256(key)),
        "EdDSA by kid, the old key": eddsa("old", OLD_SEED),
        "EdDSA by kid, the new key": eddsa("new", NEW_SEED),
    }


@functools.cache
def wrong_tokens(key):
    """{case: a token that is refused}. Each differs from a right one in one way."""
    cases = {}
    now = int(time.time())
    claims = {"sub": "7", "exp": now + 3600}
    for alg in ("none", "None", "NONE", "nOnE", ""):
        unsigned = sign_jwt({"alg": alg, "typ": "JWT"}, claims, lambda data: b"")
        cases[f"alg {alg!r}: unsigned"] = unsigned
        cases[f"alg {alg!r}: unsigned, two parts"] = unsigned[:-1]
        cases[f"alg {alg!r}: signed"] = sign_jwt({"alg": alg}, claims, hs256(key))

    # Another algorithm than the key's.
    for alg in ("HS384", "HS512"):
        cases[f"alg {alg}"] = mint(7, alg=alg, key=key)
    for alg in ("hs256", "HS256 ", "RS256", "ES256", "PS256", "EdDSA", None, 256, ["HS256"]):
        cases[f"alg {alg!r} over HS256"] = sign_jwt({"alg": alg}, claims, hs256(key))
    cases["no alg"] = sign_jwt({}, claims, hs256(key))
    for alg in ("HS256", "none", "ES256", "eddsa", "Ed25519ph"):
        cases[f"alg {alg} over EdDSA"] = sign_jwt({"alg": alg, "kid": "new"}, claims,
                                                  lambda data: ed25519_sign(NEW_SEED, data))
    # RFC 7515: a critical header nobody here knows makes the token invalid.
    cases["a critical header"] = mint(7, key=key, header={"crit": ["exp2"], "exp2": 1})

    # Another key. The classic confusion: HS256 signed with the bytes everybody knows.
    public = ed25519_public(NEW_SEED)
    for name, other in (("public key", public), ("public key in base64", b64url(public).encode()),
                        ("empty key", b"")):
        cases[f"{name} as the secret, with its kid"] = mint(7, key=other, kid="new")
        cases[f"{name} as the secret"] = mint(7, key=other)
    for name, other in (("zeros", b"\0" * 32), ("a shorter secret", key[:-1]),
                        ("a longer secret", key + b"\1"),
                        ("the secret in base64", b64url(key).encode()),
                        ("a random secret", os.urandom(32))):
        cases[f"HS256 with {name}"] = mint(7, key=other)
    for name, kid, seed in (("the old key as new", "new", OLD_SEED),
                            ("the new key as old", "old", NEW_SEED),
                            ("an unknown kid", "gone", NEW_SEED), ("an empty kid", "", NEW_SEED),
                            ("a strange key as new", "new", STRANGER),
                            ("a strange key", None, STRANGER)):
        cases[f"EdDSA with {name}"] = eddsa(kid, seed)
    for kid in (7, "../new"):
        cases[f"EdDSA with kid {kid!r}"] = eddsa(None, NEW_SEED, header={"kid": kid})

    # Malformed.
    good = mint(7, key=key)
    head, body, tag = good.split(".")
    for wrong in ("{head}", "{head}.{body}", "{head}.{body}.", ".{body}.{tag}", "{head}..{tag}",
                  "{good}.", "{good}.x", ".{good}", "..", "...", "{head}.{body}.{tag}=",
                  "{head}=.{body}.{tag}", "{good}A", "{head}.{body}.{tag}{tag}",
                  "{head}!{body}!{tag}"):
        cases[f"form {wrong}"] = wrong.format(good=good, head=head, body=body, tag=tag)
    cases["a signature of ten characters"] = f"{head}.{body}.{tag[:10]}"
    cases["without the last character"] = good[:-1]
    cases["3,000 characters"] = "x" * 3000
    # 43 characters carry 258 bits: the two left over must be zero, or one token has four names.
    last = ALPHABET.index(good[-1])
    assert last & 3 == 0
    for extra in (1, 2, 3):
        cases[f"bits beyond the signature: {extra}"] = good[:-1] + ALPHABET[last | extra]
    # S + L verifies in a careless implementation: the same token under a second signature.
    head, body, tag = eddsa("new", NEW_SEED).split(".")
    raw = unb64url(tag)
    second = int.from_bytes(raw[32:], "little") + 2**252 + 27742317777372353535851937790883648493
    cases["a second EdDSA signature"] = \
        f"{head}.{body}.{b64url(raw[:32] + second.to_bytes(32, 'little'))}"

    # Claims. None: the claim is missing.
    for exp in (None, 0, -1, "9999999999", "", True):
        cases[f"exp {exp!r}"] = mint(7, key=key, claims={"exp": exp})
    for name, exp in (("an hour ago", now - 3600), ("a second ago", now - 1), ("now", now),
                      ("in a list", [now + 600])):
        cases[f"exp {name}"] = mint(7, key=key, claims={"exp": exp})
    for sub in (None, "", "abc", "0", "-1", "+1", "1.5", "1e3", "7 ", " 7", "0x7", "7a", str(2**53),
                str(2**64 + 7), "9" * 40, 7, 7.0, True, ["7"], {"a": "7"}):
        cases[f"sub {sub!r}"] = mint(7, key=key, claims={"sub": sub})
    cases["EdDSA, exp ten minutes ago"] = eddsa("new", NEW_SEED, ttl=-600)
    cases["EdDSA, sub 'x'"] = eddsa("new", NEW_SEED, claims={"sub": "x"})
    cases["EdDSA, no exp"] = eddsa("new", NEW_SEED, claims={"exp": None})

    # JSON.
    exp = now + 3600
    for text in (b'{"sub":"7","sub":"8","exp":%d}' % exp, b'{"sub":"7","exp":1,"exp":%d}' % exp):
        cases[f"doubled claims {text[:22]}"] = sign_jwt({"alg": "HS256"}, text, hs256(key))
    cases["a doubled alg"] = sign_jwt(b'{"alg":"none","alg":"HS256"}', claims, hs256(key))
    text = compact(claims)
    for name, wrong in (("empty", b""), ("a list", b"[]"), ("null", b"null"), ("a number", b"7"),
                        ("cut", text[:-1]), ("more behind them", text + b"x"),
                        ("twice", text + text), ("no UTF-8", text.replace(b'"7"', b'"\xff"')),
                        ("deep", b"[" * 500)):
        cases[f"claims: {name}"] = sign_jwt({"alg": "HS256"}, wrong, hs256(key))
    for header in (b"", b"[]", b"null", b"HS256", b'{"alg":"HS256"', b'{"alg":"HS256"}x'):
        cases[f"header {header}"] = sign_jwt(header, claims, hs256(key))
    return cases


@pytest.mark.asan
@pytest.mark.parametrize("case", right_tokens(b"any"))
def test_a_right_token_is_accepted(server, case):
    accepted(server, right_tokens(key_of(server))[case])


@pytest.mark.asan
@pytest.mark.parametrize("case", wrong_tokens(b"any"))
def test_a_wrong_token_is_refused(server, case):
    refused(server, wrong_tokens(key_of(server))[case])


def test_a_token_is_believed_again_and_again(server):
    token = mint(7, key=key_of(server))
    for _ in range(20):
        accepted(server, token)


def test_the_token_says_who(server, shop):
    lot = shop.lot(total=5)
    order = shop.order_locked(12345, lot.item)["order_id"]
    assert server.get(f"/v1/orders/{order}", mint(12345, key=key_of(server))).status == 200
    problem(server.get(f"/v1/orders/{order}", mint(12346, key=key_of(server))), 404, "not_found")


def test_no_token_and_no_scheme(server):
    problem(server.get("/v1/me/orders"), 401, "unauthenticated")
    token = mint(7, key=key_of(server))
    for value in ("", "Bearer", "Bearer ", token, f"Basic {token}", f"Token {token}",
                  f"Bearer{token}", f"Bearer {token} x", f"Bearer {token},",
                  f"Bearer {token} {token}"):
        problem(server.get("/v1/me/orders", headers={"Authorization": value}), (401, 400),
                ("unauthenticated", "bad_request"))


def test_the_scheme_has_no_case(server):
    token = mint(7, key=key_of(server))
    response = server.get("/v1/me/orders", headers={"Authorization": f"bearer {token}"})
    assert response.status == 200, response


def test_unauthenticated_names_the_scheme(server):
    response = server.get("/v1/me/orders")
    assert (response.get("www-authenticate") or "").lower().startswith("bearer"), response
    assert response.get("cache-control") == "no-store"


def test_tokens_travel_only_in_authorization(server):
    token = mint(7, key=key_of(server))
    problem(server.get(f"/v1/me/orders?access_token={token}&token={token}"), 401,
            "unauthenticated")
    problem(server.get("/v1/me/orders", headers={"Cookie": f"token={token}"}), 401,
            "unauthenticated")


def test_a_token_changed_anywhere_is_refused(server):
    token = mint(7, key=key_of(server))
    for at in range(0, len(token)):
        if token[at] != ".":
            other = ALPHABET[ALPHABET.index(token[at]) ^ 32]
            refused(server, token[:at] + other + token[at + 1:])


def test_a_remembered_token_is_forgotten_at_its_exp(server):
    token = mint(7, ttl=3, key=key_of(server))
    end = int(time.time()) + 2
    statuses = []
    while True:
        response = server.get("/v1/me/orders", token)
        statuses.append(response.status)
        if response.status != 200:
            problem(response, 401, "unauthenticated")
            break
        assert time.time() < end + 60, "the token is believed long after its exp"
        time.sleep(0.05)
    assert time.time() >= end - 1, "refused long before its exp"


def test_leeway_forgives_a_little(make_server):
    server = make_server(sets=["auth.leeway_s=120"])
    key = key_of(server)
    accepted(server, mint(7, ttl=-30, key=key))
    refused(server, mint(7, ttl=-600, key=key))


def test_guessing_signatures_is_rate_limited_per_address(server):
    """An Ed25519 check costs: an address that fails too often is told to wait, others not."""
    good = mint(7, alg="EdDSA", key=OLD_SEED, kid="old")
    head, claims, _ = good.split(".")
    source = f"127.{next(_addresses)}"
    with Conn(server.address, source=source) as conn:
        limited = None
        for _ in range(100):
            for _ in range(500):
                token = f"{head}.{claims}.{b64url(os.urandom(63) + bytes(1))}"  # S is below L
                conn.send(request_bytes("GET", "/v1/me/orders",
                                        {"Authorization": f"Bearer {token}"}))
            for _ in range(500):
                response = conn.read_response()
                if response.status == 429:
                    limited = response
                else:
                    problem(response, 401, "unauthenticated")
            if limited:
                break
        problem(limited, 429, "rate_limited", "later")
        assert any(n.lower().startswith("ratelimit") for n, _ in limited.headers), limited
    accepted(server, good)
    # A tag that differs for certain: one that ends in AA by chance is met about once in 250 runs.
    refused(server, good[:-8] + ("B" if good[-8] == "A" else "A") + good[-7:])


def test_cheap_failures_do_not_lock_out_others_behind_one_address(server):
    source = f"127.{next(_addresses)}"
    with Conn(server.address, source=source) as conn:
        for _ in range(10):
            for _ in range(500):
                conn.send(request_bytes("GET", "/v1/me/orders", {"Authorization": "Bearer x.y.z"}))
            for _ in range(500):
                problem(conn.read_response(), 401, "unauthenticated")
        token = mint(7, alg="EdDSA", key=OLD_SEED, kid="old", ttl=4321)
        conn.send(request_bytes("GET", "/v1/me/orders", {"Authorization": f"Bearer {token}"}))
        assert conn.read_response().status == 200


# ---------------------------------------------------------------- EdDSA

def test_eddsa_keys_rotate(make_server):
    server = make_server(start=False)
    write_keys(server, old=OLD_SEED)
    server.start()
    old = mint(7, alg="EdDSA", key=OLD_SEED, kid="old")
    new = mint(7, alg="EdDSA", key=NEW_SEED, kid="new")
    accepted(server, old)
    refused(server, new)
    write_keys(server, old=OLD_SEED, new=NEW_SEED)
    server.restart()
    accepted(server, old)
    accepted(server, new)
    write_keys(server, new=NEW_SEED)
    server.restart()
    refused(server, old)
    accepted(server, new)


def test_streams_end_when_a_reload_removes_what_they_were_opened_with(make_server):
    server = make_server(start=False)
    write_keys(server, old=OLD_SEED, new=NEW_SEED)
    server.start()
    shop = Shop(server)
    lot = shop.lot(total=5)
    order = shop.order_locked(7, lot.item)["order_id"]
    path = f"/v1/orders/{order}/events"
    admin = server.admin_token
    with server.events(path, mint(7, alg="EdDSA", key=OLD_SEED, kid="old")) as old, \
            server.events(path, mint(7, alg="EdDSA", key=NEW_SEED, kid="new")) as new, \
            server.events("/v1/admin/live", admin) as live:
        for stream in (old, new, live):
            assert stream.next() is not None
        write_keys(server, new=NEW_SEED)
        with open(os.path.join(server.data, "admin.token"), "w") as file:
            file.write("another-token-of-an-administrator-0000000000\n")
        began = time.monotonic()
        server.signal(signal.SIGHUP)
        assert old.next() is None
        while live.next() is not None:
            pass
        assert time.monotonic() - began < 5
        shop.cancelled(7, order)
        assert json.loads(new.next().data)["status"] == "CANCELLED"
    problem(server.events("/v1/admin/live", admin).response, 401, "unauthenticated")


def test_without_a_key_file_eddsa_is_refused(make_server):
    server = make_server()
    refused(server, mint(7, alg="EdDSA", key=NEW_SEED, kid="new"))
    accepted(server, mint(7, key=key_of(server)))


@pytest.mark.parametrize("text", ["new\n", "new !!!\n", "new AAAA\n", "rubbish in a line\n"],
                         ids=repr)
def test_a_broken_key_file_is_refused_at_start(make_server, text):
    server = make_server(start=False)
    os.makedirs(server.data, exist_ok=True)
    with open(os.path.join(server.data, "jwt-eddsa.pub"), "w") as file:
        file.write(text)
    assert server.refused_start() == 1, server.log()
    assert "jwt-eddsa.pub" in server.log()
