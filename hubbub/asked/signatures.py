"""Signatures of lists: Ed25519, with private keys that never touch a server."""

from pathlib import Path

from hubbub.asked.asked_list import AskedError, AskedList
from oracles.errors import ParameterError, extra

with extra("signed"):
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

KEY_HELP = "make one with: openssl genpkey -algorithm ed25519 -out key.pem"


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key of a PEM file."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror}; {KEY_HELP}") from None
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The error of the library may quote the file, and the file is a secret.
        raise ParameterError(f"{path} has no private key in PEM without a password; {KEY_HELP}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ParameterError(f"the key in {path} is not of Ed25519; {KEY_HELP}")
    return key


def public_hex(key: Ed25519PrivateKey) -> str:
    """Return the public key as applications hold it."""
    return key.public_key().public_bytes_raw().hex()


def sign(signed_list: AskedList, key: Ed25519PrivateKey) -> AskedList:
    """Return the list with the signature of this key."""
    return signed_list.signed(public_hex(key), key.sign(signed_list.signed_bytes).hex())


def signers(signed_list: AskedList, keys: tuple[str, ...]) -> set[str]:
    """Return those of `keys` that signed the list. The same key twice is one."""
    message = signed_list.signed_bytes
    return {key for key, signature in signed_list.signatures if key in keys and _is_signed(message, key, signature)}


def read_public_keys(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return public keys in hex. A malformed or repeated one is a ParameterError."""
    for text in texts:
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
        except ValueError:
            raise ParameterError(f"a public key must have 64 hexadecimal digits, got {text!r}") from None
    keys = tuple(text.lower() for text in texts)
    if not keys or len(set(keys)) < len(keys):
        raise ParameterError("there must be at least one public key, and each must be another one")
    return keys


def check_signed(signed_list: AskedList, keys: tuple[str, ...], threshold: int) -> None:
    """Raise an AskedError unless `threshold` different keys signed the list."""
    count = len(signers(signed_list, keys))
    if count < threshold:
        raise AskedError(
            f"list {signed_list.number} is signed by {count} of {len(keys)} known keys, and needs {threshold}"
        )


def _is_signed(message: bytes, key: str, signature: str) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
