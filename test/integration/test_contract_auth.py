"""Buyers' tokens: which JWTs are believed, which are not, and what the refusal looks like."""
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


def test_hs256_with_the_shared_secret(server):
    accepted(server, mint(7, key=key_of(server)))


def test_a_token_is_believed_again_and_again(server):
    token = mint(7, key=key_of(server))
    for _ in range(20):
        accepted(server, token)


def test_the_token_says_who(server, shop):
    lot = shop.lot(total=5)
    order = shop.order_locked(12345, lot.item)["order_id"]
    assert server.get(f"/v1/orders/{order}", mint(12345, key=key_of(server))).status == 200
    problem(server.get(f"/v1/orders/{order}", mint(12346, key=key_of(server))), 404, "not_found")


@pytest.mark.parametrize("user", [1, MAX_ID])
def test_the_smallest_and_the_largest_user(server, user):
    accepted(server, mint(user, key=key_of(server)))


def test_other_claims_are_no_harm(server):
    key = key_of(server)
    accepted(server, mint(7, key=key, claims={
        "iss": "shop", "aud": ["a", "b"], "iat": int(time.time()), "jti": "x\u00e9\"\\",
        "name": "李雷", "admin": True, "nothing": None, "deep": {"a": [1, {"b": -2.5e3}]}}))
    accepted(server, sign_jwt({"alg": "HS256"}, {"sub": "7", "exp": 9999999999}, hs256(key)))
    accepted(server, sign_jwt({"typ": "JWT", "alg": "HS256", "x5t": "abc"},
                              b' {"exp" : 9999999999 , "sub" : "7" } ', hs256(key)))


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


@pytest.mark.asan
def test_alg_none_is_refused_in_every_spelling(server):
    for alg in ("none", "None", "NONE", "nOnE", ""):
        claims = {"sub": "7", "exp": int(time.time()) + 600}
        unsigned = sign_jwt({"alg": alg, "typ": "JWT"}, claims, lambda data: b"")
        refused(server, unsigned)
        refused(server, unsigned[:-1])
        refused(server, sign_jwt({"alg": alg}, claims, hs256(key_of(server))))


def test_another_algorithm_than_the_keys_is_refused(server):
    key = key_of(server)
    for alg in ("HS384", "HS512"):
        refused(server, mint(7, alg=alg, key=key))
    for alg in ("hs256", "HS256 ", "RS256", "ES256", "PS256", "EdDSA"):
        refused(server, sign_jwt({"alg": alg}, {"sub": "7", "exp": int(time.time()) + 600},
                                 hs256(key)))
    for header in ({}, {"alg": None}, {"alg": 256}, {"alg": ["HS256"]}):
        refused(server, sign_jwt(header, {"sub": "7", "exp": int(time.time()) + 600}, hs256(key)))


def test_a_public_key_is_no_shared_secret(server):
    """The classic confusion: HS256 signed with the bytes everybody knows."""
    public = ed25519_public(NEW_SEED)
    for key in (public, b64url(public).encode(), b""):
        refused(server, mint(7, key=key, kid="new"))
        refused(server, mint(7, key=key))


def test_a_wrong_secret_is_refused(server):
    key = key_of(server)
    for wrong in (b"\0" * 32, key[:-1], key + b"\1", b64url(key).encode(), os.urandom(32)):
        refused(server, mint(7, key=wrong))


def test_a_token_changed_anywhere_is_refused(server):
    token = mint(7, key=key_of(server))
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for at in range(0, len(token)):
        if token[at] != ".":
            other = alphabet[alphabet.index(token[at]) ^ 32]
            refused(server, token[:at] + other + token[at + 1:])


def test_malformed_tokens_are_refused(server):
    token = mint(7, key=key_of(server))
    head, claims, tag = token.split(".")
    for wrong in (head, f"{head}.{claims}", f"{head}.{claims}.", f".{claims}.{tag}",
                  f"{head}..{tag}", token + ".", token + ".x", "." + token, "..", "...",
                  f"{head}.{claims}.{tag}=", f"{head}=.{claims}.{tag}", token[:-1], token + "A",
                  f"{head}.{claims}.{tag[:10]}", f"{head}.{claims}.{tag}{tag}",
                  token.replace(".", "!"), "x" * 3000):
        refused(server, wrong)


def test_a_bit_beyond_the_signature_is_not_ignored(server):
    """43 characters carry 258 bits: the two left over must be zero, or one token has four names."""
    token = mint(7, key=key_of(server))
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet.index(token[-1])
    assert last & 3 == 0
    for extra in (1, 2, 3):
        refused(server, token[:-1] + alphabet[last | extra])


def test_exp_is_required_and_kept(server):
    key = key_of(server)
    now = int(time.time())
    for exp in (None, now - 3600, now - 1, now, 0, -1, "9999999999", "", True, [now + 600]):
        refused(server, mint(7, key=key, claims={"exp": exp}))
    accepted(server, mint(7, key=key, claims={"exp": now + 600}))


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


@pytest.mark.parametrize("sub", [None, "", "abc", "0", "-1", "+1", "1.5", "1e3", "7 ", " 7", "0x7",
                                 "7a", str(2**53), str(2**64 + 7), "9" * 40, 7, 7.0, True, ["7"],
                                 {"a": "7"}], ids=repr)
def test_sub_is_a_user_id_as_a_decimal_string(server, sub):
    refused(server, mint(7, key=key_of(server), claims={"sub": sub}))


def test_doubled_claims_are_refused(server):
    exp = int(time.time()) + 600
    key = key_of(server)
    refused(server, sign_jwt({"alg": "HS256"}, b'{"sub":"7","sub":"8","exp":%d}' % exp, hs256(key)))
    refused(server, sign_jwt({"alg": "HS256"}, b'{"sub":"7","exp":1,"exp":%d}' % exp, hs256(key)))
    refused(server, sign_jwt(b'{"alg":"none","alg":"HS256"}', {"sub": "7", "exp": exp},
                             hs256(key)))


def test_claims_that_are_no_json_object_are_refused(server):
    exp = int(time.time()) + 600
    key = key_of(server)
    good = compact({"sub": "7", "exp": exp})
    for claims in (b"", b"[]", b"null", b"7", good[:-1], good + b"x", good + good,
                   good.replace(b'"7"', b'"\xff"'), b"[" * 500):
        refused(server, sign_jwt({"alg": "HS256"}, claims, hs256(key)))
    for header in (b"", b"[]", b"null", b"HS256", b'{"alg":"HS256"', b'{"alg":"HS256"}x'):
        refused(server, sign_jwt(header, good, hs256(key)))


def test_what_must_be_understood_and_is_not_is_refused(server):
    """RFC 7515: a critical header nobody here knows makes the token invalid."""
    refused(server, mint(7, key=key_of(server), header={"crit": ["exp2"], "exp2": 1}))


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

@pytest.mark.asan
def test_eddsa_by_kid(server):
    accepted(server, mint(7, alg="EdDSA", key=OLD_SEED, kid="old"))
    accepted(server, mint(7, alg="EdDSA", key=NEW_SEED, kid="new"))


def test_eddsa_wrong_kid_wrong_key_unknown_kid(server):
    refused(server, mint(7, alg="EdDSA", key=OLD_SEED, kid="new"))
    refused(server, mint(7, alg="EdDSA", key=NEW_SEED, kid="old"))
    refused(server, mint(7, alg="EdDSA", key=NEW_SEED, kid="gone"))
    refused(server, mint(7, alg="EdDSA", key=NEW_SEED, kid=""))
    refused(server, mint(7, alg="EdDSA", key=STRANGER, kid="new"))
    refused(server, mint(7, alg="EdDSA", key=STRANGER))
    refused(server, mint(7, alg="EdDSA", key=NEW_SEED, header={"kid": 7}))
    refused(server, mint(7, alg="EdDSA", key=NEW_SEED, header={"kid": "../new"}))


def test_eddsa_with_another_alg_is_refused(server):
    claims = {"sub": "7", "exp": int(time.time()) + 600}
    for alg in ("HS256", "none", "ES256", "eddsa", "Ed25519ph"):
        refused(server, sign_jwt({"alg": alg, "kid": "new"}, claims,
                                 lambda data: ed25519_sign(NEW_SEED, data)))


def test_eddsa_claims_are_checked_like_others(server):
    refused(server, mint(7, alg="EdDSA", key=NEW_SEED, kid="new", ttl=-600))
    refused(server, mint(7, alg="EdDSA", key=NEW_SEED, kid="new", claims={"sub": "x"}))
    refused(server, mint(7, alg="EdDSA", key=NEW_SEED, kid="new", claims={"exp": None}))


def test_eddsa_signatures_have_one_form(server):
    """S + L verifies in a careless implementation: the same token under a second signature."""
    head, claims, tag = mint(7, alg="EdDSA", key=NEW_SEED, kid="new").split(".")
    raw = unb64url(tag)
    order = 2**252 + 27742317777372353535851937790883648493
    other = int.from_bytes(raw[32:], "little") + order
    refused(server, f"{head}.{claims}.{b64url(raw[:32] + other.to_bytes(32, 'little'))}")


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
