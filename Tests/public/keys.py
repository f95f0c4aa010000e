"""Signatures for the fake provider: RS256 (RFC 7518 §3.3) and compact JWTs (RFC 7519), by the standard library.

A key is made from a seed, so it protects nothing.
"""

import base64
import functools
import hashlib
import json
import math
import random

PRIME_BITS, EXPONENT, WITNESSES = 1024, 65537, 8
# A candidate has no factor below this.
SMALL_FACTORS = math.prod(range(3, 1500, 2))
# The DER prefix of a SHA-256 digest in EMSA-PKCS1-v1_5 (RFC 8017 §9.2, note 1).
DIGEST_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def is_probable_prime(number, chance):
    """Miller-Rabin."""
    if math.gcd(number, SMALL_FACTORS) != 1:
        return False
    twos = ((number - 1) & -(number - 1)).bit_length() - 1
    for _ in range(WITNESSES):
        power = pow(chance.randrange(2, number - 1), (number - 1) >> twos, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def prime(chance):
    while True:
        candidate = chance.getrandbits(PRIME_BITS) | (0b11 << (PRIME_BITS - 2)) | 1
        if candidate % EXPONENT != 1 and is_probable_prime(candidate, chance):
            return candidate


class Key:
    def __init__(self, seed):
        chance = random.Random(f"public {seed}")
        one, two = prime(chance), prime(chance)
        self.modulus, self.exponent = one * two, pow(EXPONENT, -1, (one - 1) * (two - 1))
        self.size = (self.modulus.bit_length() + 7) // 8

    def jwk(self, kid):
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "e": base64url(EXPONENT.to_bytes(3)),
                "n": base64url(self.modulus.to_bytes(self.size))}

    def jwt(self, claims, kid):
        head = {"alg": "RS256", "typ": "JWT", "kid": kid}
        signed = ".".join(base64url(json.dumps(part).encode()) for part in (head, claims))
        digest = DIGEST_PREFIX + hashlib.sha256(signed.encode()).digest()
        block = b"\x00\x01" + b"\xff" * (self.size - len(digest) - 3) + b"\x00" + digest
        signature = pow(int.from_bytes(block), self.exponent, self.modulus)
        return f"{signed}.{base64url(signature.to_bytes(self.size))}"


@functools.cache
def key(seed):
    """Call it in one thread first: making a key takes about half a second."""
    return Key(seed)
