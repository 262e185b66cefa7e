"""`UpgradeRefusingParser`: parse requests that offer to change to another protocol as others.

Some clients offer HTTP/2 with their first request (`Upgrade: h2c`), as that of Java does by
default. A server may ignore the offer (RFC 9110, section 7.8). httptools ends such a request after
its head and takes its body for data of the other protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from httptools import HttpParserUpgrade, HttpRequestParser

if TYPE_CHECKING:
    from array import array

_UPGRADE: Final = b"upgrade"


class Receiver(Protocol):
    """The part of uvicorn's protocol that the parser uses.

    Attributes:
        url: the target of the request that is parsed.
        headers: its names in lower case, and values.
        parser: parses what arrives next.
    """

    url: bytes
    headers: list[tuple[bytes, bytes]]
    parser: HttpRequestParser


class UpgradeRefusingParser(HttpRequestParser):
    """A parser that begins again without the offer when a head offers an upgrade.

    The receiver must ignore `on_headers_complete` and `on_message_complete` while `offers_upgrade`
    is true: both are called once more.

    Args:
        receiver: gets the parts of requests. Its attribute `parser` is replaced.
    """

    def __init__(self, receiver: Receiver) -> None:
        super().__init__(receiver)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self._receiver = receiver

    def feed_data(self, data: bytes | bytearray | memoryview | array[int]) -> None:
        """Parse data.

        Raises:
            HttpParserError: it is malformed.
            HttpParserUpgrade: it follows a CONNECT request.
        """
        parser: HttpRequestParser = self
        rest = data
        while True:
            try:
                HttpRequestParser.feed_data(parser, rest)
            except HttpParserUpgrade as upgrade:
                if not offers_upgrade(parser):
                    raise
                rest = memoryview(rest)[upgrade.args[0] :]
            else:
                return
            head = _head_without_offer(self._receiver)
            parser = self._receiver.parser = UpgradeRefusingParser(self._receiver)
            HttpRequestParser.feed_data(parser, head)


def offers_upgrade(parser: HttpRequestParser) -> bool:
    """Return whether the parsed head offers an upgrade that a server may ignore."""
    return bool(parser.should_upgrade()) and parser.get_method() != b"CONNECT"


def _head_without_offer(receiver: Receiver) -> bytes:
    parser = receiver.parser
    version = parser.get_http_version().encode("ascii")
    lines = [b"%b %b HTTP/%b" % (parser.get_method(), receiver.url, version)]
    lines += [b"%b: %b" % header for header in receiver.headers if header[0] != _UPGRADE]
    return b"\r\n".join([*lines, b"", b""])
