"""RS256 (RFC 7518 §3.3) with the standard library alone, for tests: the key is made from a seed and protects nothing."""

import base64
import functools
import hashlib
import random

BITS, EXPONENT, ROUNDS = 1024, 65537, 12
# DigestInfo of SHA-256 (RFC 8017 §9.2).
PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
SMALL = [number for number in range(3, 2000, 2) if all(number % other for other in range(3, int(number ** 0.5) + 1, 2))]


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Key:
    """A key for signatures, the same for the same seed."""

    def __init__(self, seed):
        self.kid = f"key-{seed}"
        chance = random.Random(seed)
        first, second = prime(chance), prime(chance)
        self.modulus = first * second
        self.private = pow(EXPONENT, -1, (first - 1) * (second - 1))
        self.length = (self.modulus.bit_length() + 7) // 8

    def jwk(self):
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid, "n": encode(self.modulus.to_bytes(self.length)),
                "e": encode(EXPONENT.to_bytes(3))}

    def sign(self, data):
        digest = PREFIX + hashlib.sha256(data).digest()
        padded = b"\x00\x01" + b"\xff" * (self.length - len(digest) - 3) + b"\x00" + digest
        return pow(int.from_bytes(padded), self.private, self.modulus).to_bytes(self.length)


@functools.cache
def key(seed):
    return Key(seed)


def prime(chance):
    while True:
        found = chance.getrandbits(BITS) | (3 << (BITS - 2)) | 1
        if (found - 1) % EXPONENT and all(found % small for small in SMALL) and is_prime(found, chance):
            return found


def is_prime(number, chance):
    """Miller and Rabin's test."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(ROUNDS):
        value = pow(chance.randrange(2, number - 1), odd, number)
        if value in (1, number - 1):
            continue
        for _ in range(twos - 1):
            value = pow(value, 2, number)
            if value == number - 1:
                break
        else:
            return False
    return True
