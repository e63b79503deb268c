"""Text in other encodings than UTF-8, piece by piece."""

from __future__ import annotations

import codecs

from maxmargin.streams.option_errors import Option
from maxmargin.streams.source import StreamError

# The longer marks first: that of UTF-32 begins like that of UTF-16.
OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
UTF8 = ("utf-8", "utf-8-sig")
# What codecs decode invalid bytes to, and a byte that never occurs in UTF-8.
UNKNOWN, INVALID = "\N{REPLACEMENT CHARACTER}".encode(), b"\xff"


class Decoder:
    """UTF-8, or a single-byte encoding that extends ASCII."""

    def __init__(self, encoding: str) -> None:
        self._given = encoding
        self._codec: str | None = None
        try:
            name = codecs.lookup(encoding).name
            if name in UTF8:
                return
            is_known = _is_single_byte(name)
        except LookupError:
            name, is_known = "", False
        if not is_known:
            cure = f"; {_converting(encoding)}" if name else ""
            raise StreamError(
                f"encoding must be 'utf-8' or a single-byte encoding, such as 'latin-1' "
                f"or 'cp1252', not {encoding!r}{cure}."
            )
        self._codec = name

    def mark_of(self, start: bytes, name: str) -> int:
        """The length of the byte order mark of a text; raises for one of another encoding."""
        for mark, encoding in OTHER_MARKS.items():
            if start.startswith(mark):
                raise StreamError(f"{name}: the text is {encoding}; {_converting(encoding)}.")
        has_mark = self._codec is None and start.startswith(codecs.BOM_UTF8)
        return len(codecs.BOM_UTF8) if has_mark else 0

    def as_utf8(self, text: bytes) -> bytes:
        """The text in UTF-8, which is invalid if the text is."""
        if self._codec is None or text.isascii():
            return text
        return text.decode(self._codec, "replace").encode().replace(UNKNOWN, INVALID)

    def trouble(self) -> tuple[str | Option, ...]:
        """The message about an invalid line."""
        if self._codec is not None:
            return (f"the line is not {self._given}",)
        latin = Option("encoding", "latin-1")
        return "the line is not UTF-8 (use ", latin, " if that is its encoding)"


def _converting(encoding: str) -> str:
    return f"convert the file: iconv -f {encoding} -t UTF-8 FILE > OTHER"


def _is_single_byte(codec: str) -> bool:
    ascii_letters, others = bytes(range(128)), range(128, 256)
    if ascii_letters.decode(codec, "replace") != ascii_letters.decode("ascii"):
        return False
    letters = {bytes([byte]).decode(codec, "replace") for byte in others}
    # In a multi-byte encoding, two bytes are one character, or no byte is one.
    pairs = (bytes(pair).decode(codec, "replace") for b in others for pair in ((b, b), (b, 65)))
    return letters != {UNKNOWN.decode()} and all(len(pair) == 2 for pair in pairs)
