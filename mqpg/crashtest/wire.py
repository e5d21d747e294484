"""PostgreSQL's wire protocol, as far as it takes to see statements on their way to a server."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import BinaryIO

__all__ = ["Frame", "Statements", "error_response", "normalised", "parse", "query", "read_frame", "read_startup"]

_ENCRYPTION = (80877103, 80877104)  # SSLRequest, GSSENCRequest
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_NUMBER = re.compile(r"(?<![\w$])-?\d+(?:\.\d+)?\b")


@dataclass(frozen=True, slots=True)
class Frame:
    """One message of the protocol: its type byte and its body."""

    kind: bytes
    body: bytes

    @property
    def raw(self) -> bytes:
        """The message as it travels."""
        return self.kind + struct.pack("!i", len(self.body) + 4) + self.body


def read_frame(stream: BinaryIO) -> Frame | None:
    """Read the next message. None if the connection ended."""
    head = stream.read(5)
    if len(head) < 5:
        return None
    length = int.from_bytes(head[1:], "big") - 4
    body = stream.read(length)
    return Frame(head[:1], body) if len(body) == length else None


def read_startup(stream: BinaryIO) -> bytes | None:
    """Read a message from before the session: it has no type byte. None if there is none."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    return head + stream.read(int.from_bytes(head, "big") - 4)


def wants_encryption(startup: bytes) -> bool:
    """Whether a client asks for TLS or GSSAPI before it begins."""
    return len(startup) == 8 and int.from_bytes(startup[4:], "big") in _ENCRYPTION


@dataclass
class Statements:
    """The texts of prepared statements and portals of one session."""

    _prepared: dict[bytes, str] = field(default_factory=dict)
    _portals: dict[bytes, str] = field(default_factory=dict)

    def executed(self, frame: Frame) -> str | None:
        """The text of the statement that a client's message executes. None: it executes none."""
        match frame.kind:
            case b"Q":
                return _text(frame.body.rstrip(b"\0"))
            case b"P":
                name, text, _ = frame.body.split(b"\0", 2)
                self._prepared[name] = _text(text)
            case b"B":
                portal, name, _ = frame.body.split(b"\0", 2)
                self._portals[portal] = self._prepared.get(name, "?")
            case b"E":
                return self._portals.get(frame.body.split(b"\0", 1)[0], "?")
            case _:
                pass
        return None


def query(text: str) -> Frame:
    """A simple query."""
    return Frame(b"Q", text.encode() + b"\0")


def parse(text: str) -> Frame:
    """The preparation of an unnamed statement without parameters."""
    return Frame(b"P", b"\0" + text.encode() + b"\0\0\0")


def error_response(sqlstate: str, message: str) -> Frame:
    """An error as a server reports it."""
    fields = {"S": "ERROR", "V": "ERROR", "C": sqlstate, "M": message}
    return Frame(b"E", b"".join(f"{key}{value}".encode() + b"\0" for key, value in fields.items()) + b"\0")


def normalised(text: str) -> str:
    """A statement without its literals, so that it is recognised in the next run."""
    return " ".join(_NUMBER.sub("?", _LITERAL.sub("?", text)).split())


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
