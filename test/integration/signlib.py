"""Encodings and signatures for tests: base64url, JWT (HS256, EdDSA), Standard Webhooks.

Written from the specifications (RFC 7515, RFC 8032, Standard Webhooks), not from the program under
test, so that agreement proves something. Signing only; nothing here is constant-time.
"""
import base64
import hashlib
import hmac
import json
import time


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


# Ed25519 as RFC 8032, section 5.1 defines it: slow, small, signing only.
_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_BY = 4 * pow(5, _P - 2, _P) % _P


def _ed_x(y, sign):
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    return _P - x if x & 1 != sign else x


_BX = _ed_x(_BY, 0)
_BASE = (_BX, _BY, 1, _BX * _BY % _P)


def _ed_add(a, b):
    e = (a[1] - a[0]) * (b[1] - b[0]) % _P
    f = (a[1] + a[0]) * (b[1] + b[0]) % _P
    g = 2 * a[3] * b[3] * _D % _P
    h = 2 * a[2] * b[2] % _P
    p, q, r, s = f - e, h - g, h + g, f + e
    return (p * q % _P, r * s % _P, q * r % _P, p * s % _P)


def _ed_times(scalar, point):
    result = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = _ed_add(result, point)
        point = _ed_add(point, point)
        scalar >>= 1
    return result


def _ed_bytes(point):
    inverse = pow(point[2], _P - 2, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _ed_secret(seed):
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little")
    return scalar & (1 << 254) - 8 | 1 << 254, digest[32:]


def ed25519_public(seed):
    return _ed_bytes(_ed_times(_ed_secret(seed)[0], _BASE))


def ed25519_sign(seed, message):
    scalar, prefix = _ed_secret(seed)
    public = ed25519_public(seed)
    r = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % _L
    point = _ed_bytes(_ed_times(r, _BASE))
    k = int.from_bytes(hashlib.sha512(point + public + message).digest(), "little") % _L
    return point + ((r + k * scalar) % _L).to_bytes(32, "little")


def sign_jwt(header, claims, sign):
    """A compact JWS; header and claims may be dicts or ready bytes, sign maps bytes to bytes."""
    parts = [p if isinstance(p, bytes) else compact(p) for p in (header, claims)]
    signed = ".".join(b64url(p) for p in parts)
    return signed + "." + b64url(sign(signed.encode()))


def hs256(key):
    return lambda data: hmac.new(key, data, hashlib.sha256).digest()


def mint(user, ttl=3600, alg="HS256", key=b"", kid=None, claims=None, header=None):
    """A buyer's token. key: the HS256 secret, or the Ed25519 seed for EdDSA.

    claims and header override or add members; a value of None takes the member away.
    """
    all_claims = {"sub": str(user), "exp": int(time.time()) + ttl}
    all_claims.update(claims or {})
    all_header = {"alg": alg, "typ": "JWT"}
    if kid is not None:
        all_header["kid"] = kid
    all_header.update(header or {})
    strip = lambda d: {k: v for k, v in d.items() if v is not None}
    if alg == "EdDSA":
        sign = lambda data: ed25519_sign(key, data)
    elif alg == "none":
        sign = lambda data: b""
    else:
        digest = {"HS384": hashlib.sha384, "HS512": hashlib.sha512}.get(alg, hashlib.sha256)
        sign = lambda data: hmac.new(key, data, digest).digest()
    return sign_jwt(strip(all_header), strip(all_claims), sign)


def webhook_signature(key, message_id, timestamp, body):
    """One signature of Standard Webhooks: v1, then base64 of HMAC-SHA256 over id.timestamp.body."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
