"""The password file: one user a line, as in `htpasswd`, with a hash by scrypt."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
from hmac import compare_digest
from pathlib import Path

from mqpg.values.errors import ConfigurationError

__all__ = ["LONGEST_NAME", "add_user", "hashed", "is_right", "read_users"]

LONGEST_NAME = 60
_LOG_ROUNDS, _BLOCK, _LANES = 14, 8, 5  # 16 MB of memory and about a quarter of a second
_MOST_MEMORY = 2**28
# The notation of the PHC string format, which passlib and other programs also write.
_HASH = re.compile(r"\$scrypt\$ln=(\d+),r=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)")


def hashed(password: str) -> str:
    """Hash a password with a salt of its own, as the file has it: `$scrypt$ln=14,r=8,p=5$SALT$KEY`."""
    salt = secrets.token_bytes(16)
    key = _scrypt(password, salt, _LOG_ROUNDS, _BLOCK, _LANES)
    return f"$scrypt$ln={_LOG_ROUNDS},r={_BLOCK},p={_LANES}${_encode(salt)}${_encode(key)}"


def is_right(password: str, known: str) -> bool:
    """Whether a hash, as `hashed` returns it, is that of a password."""
    found = _HASH.fullmatch(known)
    if found is None:
        return False
    key = _scrypt(password, _decode(found[4]), int(found[1]), int(found[2]), int(found[3]))
    return compare_digest(key, _decode(found[5]))


def read_users(file: Path) -> dict[str, str]:
    """Read the hash of each user. Empty lines and lines that begin with # are left out.

    Raises ConfigurationError if the file has no user, or a line in another form.
    """
    users = {}
    for number, line in enumerate(_lines(file), 1):
        name, _, known = line.partition(":")
        if not line or line.startswith("#"):
            continue
        if not name or not _HASH.fullmatch(known):
            raise ConfigurationError(
                f"{file}, line {number}: a line is NAME:HASH with a hash by scrypt, as mqpg web --add-user writes it"
            )
        users[name] = known
    if not users:
        raise ConfigurationError(f"{file} has no user: mqpg web --password-file {file} --add-user NAME adds one")
    return users


def add_user(file: Path, name: str, password: str) -> None:
    """Add a user, or replace the password of one that is there.

    A file that is missing is created, readable for its owner alone.
    """
    if not name.isprintable() or ":" in name or name != name.strip() or not 0 < len(name) <= LONGEST_NAME:
        raise ConfigurationError(f"a name has 1 to {LONGEST_NAME} characters and no colon, not {name!r}")
    if not password:
        raise ConfigurationError("the password is empty")
    others = [line for line in _lines(file) if line.partition(":")[0] != name] if file.exists() else []
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
            opened.writelines(f"{line}\n" for line in [*others, f"{name}:{hashed(password)}"])
    except OSError as error:
        raise ConfigurationError(f"cannot write {file}: {error.strerror}") from error


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from error


def _scrypt(password: str, salt: bytes, log_rounds: int, block: int, lanes: int) -> bytes:
    given = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(given, salt=salt, n=2**log_rounds, r=block, p=lanes, maxmem=_MOST_MEMORY, dklen=32)


def _encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4))
