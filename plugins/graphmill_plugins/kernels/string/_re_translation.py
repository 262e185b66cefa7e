r"""Translate RE2 patterns, which TensorFlow's regex ops use, to Python's `re`.

Syntax: github.com/google/re2/wiki/Syntax. The translation covers these differences: `$` is the end
of the text, `\z`, `\Q…\E`, `\x{…}`, `\pN`, POSIX classes, no look-around, no back references, and a
dot never matches a byte that is not UTF-8 (such bytes are lone surrogates here). Python matches by
backtracking; `bound_of` says how long that may take.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from graphmill import errors
from graphmill_plugins.kernels.string._backtracking import BacktrackingBound

if TYPE_CHECKING:
    from collections.abc import Callable

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
# RE2's Perl classes, which are ASCII only, in the syntax inside brackets.
_PERL = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_INVALID = "\udc80-\udcff"  # Bytes that are not UTF-8, as `surrogateescape` shows them.
_MAX_REPEATS = 1000
_OPERATORS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_REPEAT = re.compile(r"[*+?]|\{\d+(?:,\d*)?\}")


@lru_cache(maxsize=256)
def compile_re2(pattern: str) -> re.Pattern[str]:
    r"""Compile an RE2 pattern to match text decoded from UTF-8 with `surrogateescape`.

    Raises:
        InvalidArgumentError: the pattern is not valid in RE2.
        UnimplementedError: it uses a feature that Python lacks (`\C`, scripts, `(?U)`).
    """
    translated, _ = _translated(pattern)
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise errors.InvalidArgumentError(f"Invalid pattern: {pattern}, error: {error}") from None


def bound_of(pattern: str) -> BacktrackingBound:
    """Return the upper bound on the steps that a match of a valid pattern takes."""
    _, bound = _translated(pattern)
    return bound


@lru_cache(maxsize=256)
def _translated(pattern: str) -> tuple[str, BacktrackingBound]:
    translator = _Translator(pattern)
    return translator.run(), translator.bound


def for_ascii(pattern: re.Pattern[str]) -> re.Pattern[bytes] | None:
    """Return a bytes pattern equivalent to `pattern` on ASCII text; None if in doubt."""
    text = pattern.pattern.replace(f"[^{_INVALID}]", r"[\x00-\x7f]").replace(_INVALID, "")
    # Bytes patterns have no escapes by code point.
    return re.compile(text.encode()) if text.isascii() and r"\u" not in text.lower() else None


@lru_cache(maxsize=64)
def _category(name: str) -> str:
    """Return the characters of a Unicode general category as the contents of brackets."""
    return _ranges(lambda char: unicodedata.category(char).startswith(name))


def _ranges(is_member: Callable[[str], object]) -> str:
    """Return the members among the valid characters as the contents of brackets."""
    ranges: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code <= 0xDFFF or not is_member(chr(code)):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


_CATEGORIES = frozenset(
    (
        *("L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No"),
        *("P", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So"),
        *("Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Co"),
    )
)


def _repetitions(operator: str) -> tuple[int, int | None]:
    """Return the minimum and maximum of a repetition operator; None for no maximum."""
    if operator in _OPERATORS:
        return _OPERATORS[operator]
    low, comma, high = operator[1:-1].partition(",")
    if not comma:
        return int(low), int(low)
    return int(low), int(high) if high else None


class _Translator:
    """Translates a pattern in one pass; `_position` is the index of the next character."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._is_multiline = [False]  # One for each open group.
        self._dot_all = [False]
        self.bound = BacktrackingBound()

    def run(self) -> str:
        out: list[str] = []
        while self._position < len(self._pattern):
            out.append(self._atom(self._take()))
            self._copy_repeat(out)
        return "".join(out)

    def _take(self) -> str:
        char = self._pattern[self._position : self._position + 1]
        self._position += 1
        return char

    def _fail(self, reason: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(f"Invalid pattern: {self._pattern}, error: {reason}")

    def _copy_repeat(self, out: list[str]) -> None:
        """Copy a repetition; reject a second one, possessive in Python but invalid in RE2."""
        match = _REPEAT.match(self._pattern, self._position)
        if match is None:
            return
        if any(int(count) > _MAX_REPEATS for count in re.findall(r"\d+", match[0])):
            raise self._fail(f"invalid repetition size: {match[0]}")
        out.append(match[0])
        self.bound.repeat(*_repetitions(match[0]))
        self._position = match.end()
        if self._pattern[self._position : self._position + 1] == "?":
            out.append(self._take())
        again = _REPEAT.match(self._pattern, self._position)
        if again is not None:
            raise self._fail(f"bad repetition operator: {match[0]}{again[0]}")

    def _atom(self, char: str) -> str:
        if char == "|":
            self.bound.add_alternative()
            return char
        if char not in "()":
            self.bound.add_atom()
        if char == "\\":
            return self._escape()
        if char == "[":
            return self._brackets()
        if char == "(":
            return self._group()
        if char == ")":
            if len(self._is_multiline) > 1:
                self._is_multiline.pop()
                self._dot_all.pop()
                self.bound.close_group()
            return char
        if char == "$":
            return "$" if self._is_multiline[-1] else r"\Z"
        if char == ".":
            return f"[^{_INVALID}]" if self._dot_all[-1] else f"[^\\n{_INVALID}]"
        if char in "*+?":
            raise self._fail(f"no argument for repetition operator: {char}")
        if char in "{}":
            return "\\" + char
        return char

    def _group(self) -> str:
        multiline, dot_all = self._is_multiline[-1], self._dot_all[-1]
        if self._pattern[self._position : self._position + 1] != "?":
            self._open(multiline, dot_all)
            return "("
        named = re.compile(r"\?P?<([A-Za-z_]\w*)>", re.ASCII).match(self._pattern, self._position)
        if named is not None:
            self._position = named.end()
            self._open(multiline, dot_all)
            return f"(?P<{named[1]}>"
        flags = re.compile(r"\?([a-zA-Z]*)(-[a-zA-Z]+)?([:)])").match(self._pattern, self._position)
        if flags is None:
            raise self._fail(
                f"invalid perl operator: ({self._pattern[self._position : self._position + 2]}"
            )
        self._position = flags.end()
        return self._flags(flags[1], (flags[2] or "")[1:], flags[3])

    def _open(self, multiline: bool, dot_all: bool) -> None:
        self.bound.open_group()
        self._is_multiline.append(multiline)
        self._dot_all.append(dot_all)

    def _flags(self, enabled: str, disabled: str, end: str) -> str:
        for flag in enabled + disabled:
            if flag == "U":
                raise errors.UnimplementedError(
                    f"regex {self._pattern!r}: the flag (?U) is not supported by Python"
                )
            if flag not in "ims":
                raise self._fail(f"invalid perl operator: (?{flag}")
        multiline = ("m" in enabled or self._is_multiline[-1]) and "m" not in disabled
        dot_all = ("s" in enabled or self._dot_all[-1]) and "s" not in disabled
        # The dot is translated, so `s` needs no flag; Python has flags only per group.
        head = "?" + enabled.replace("s", "")
        if disabled.replace("s", ""):
            head += "-" + disabled.replace("s", "")
        if end == ":":
            self._open(multiline, dot_all)
            return f"({head}:"
        self._is_multiline[-1], self._dot_all[-1] = multiline, dot_all
        if head == "?":
            return ""
        return self._rest_of_group(head)

    def _rest_of_group(self, head: str) -> str:
        """Wrap the rest of the enclosing group, to which `(?i)` applies."""
        out: list[str] = []
        depth = len(self._is_multiline)
        while self._position < len(self._pattern):
            if self._pattern[self._position] == ")" and len(self._is_multiline) == depth:
                break
            out.append(self._atom(self._take()))
            self._copy_repeat(out)
        return f"({head}:{''.join(out)})"

    def _take_escaped(self) -> str:
        char = self._take()
        if char == "":
            raise self._fail("trailing \\ at end of regular expression")
        return char

    def _escape(self) -> str:
        char = self._take_escaped()
        if char == "Q":
            end = self._pattern.find("\\E", self._position)
            text = self._pattern[self._position : end if end >= 0 else None]
            self._position = len(self._pattern) if end < 0 else end + 2
            return re.escape(text)
        if char == "z":
            return r"\Z"
        if char in "AbB":
            return "\\" + char
        inside = self._class_escape(char)
        return inside if len(inside) == 1 and inside.isalnum() else f"[{inside}]"

    def _class_escape(self, char: str) -> str:
        """Return the translation of an escape inside brackets."""
        if char in "dws":
            return _PERL[char]
        if char in "DWS":
            return _complement(_PERL[char.lower()])
        if char in "pP":
            return self._property(negated=char == "P")
        if char in "aftnrv":
            return "\\" + char
        if char == "x":
            return self._hex()
        if char in "01234567":
            return self._octal(char)
        if char == "C":
            raise errors.UnimplementedError(
                f"regex {self._pattern!r}: \\C (any byte) is not supported by Python"
            )
        if char.isalnum():
            raise self._fail(f"invalid escape sequence: \\{char}")
        return "\\" + char

    def _hex(self) -> str:
        match = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})").match(
            self._pattern, self._position
        )
        code = int(match[1] or match[2], 16) if match else -1
        if match is None or code > sys.maxunicode:
            raise self._fail("invalid escape sequence: \\x")
        self._position = match.end()
        return f"\\U{code:08x}"

    def _octal(self, first: str) -> str:
        match = re.compile(r"[0-7]{0,2}").match(self._pattern, self._position)
        digits = first + (match[0] if match else "")
        # A single digit other than 0 would be a back reference, which RE2 lacks.
        if first != "0" and len(digits) == 1:
            raise self._fail(f"invalid escape sequence: \\{first}")
        self._position += len(digits) - 1
        return f"\\U{int(digits, 8):08x}"

    def _property(self, negated: bool) -> str:
        match = re.compile(r"\{(\^?)(\w+)\}|(\w)").match(self._pattern, self._position)
        if match is None:
            raise self._fail("invalid character class range: \\p")
        self._position = match.end()
        name = match[2] or match[3]
        negated ^= bool(match[1])
        if name == "Any":
            inside = "\\U00000000-\\U0010ffff"
        elif name in _CATEGORIES:
            inside = _category(name)
        else:
            raise errors.UnimplementedError(
                f"regex {self._pattern!r}: the script class \\p{{{name}}} is not available; "
                "general categories such as \\p{L} are"
            )
        return _complement(inside) if negated else inside

    def _brackets(self) -> str:
        negated = self._pattern[self._position : self._position + 1] == "^"
        self._position += negated
        parts: list[str] = []
        is_first = True
        while True:
            char = self._take()
            if char == "":
                raise self._fail("missing ]")
            if char == "]" and not is_first:
                break
            is_first = False
            parts.append(self._bracket_item(char))
        inside = "".join(parts)
        return f"[^{inside}{_INVALID}]" if negated else f"[{inside}]"

    def _bracket_item(self, char: str) -> str:
        if char == "\\":
            return self._class_escape(self._take_escaped())
        if char == "[":
            posix = re.compile(r":(\^?)(\w+):\]").match(self._pattern, self._position)
            if posix is not None:
                if posix[2] not in _POSIX:
                    raise self._fail(f"invalid character class range: [:{posix[2]}:]")
                self._position = posix.end()
                inside = _POSIX[posix[2]]
                return _complement(inside) if posix[1] else inside
        # A dash keeps its meaning; escape the operators that Python warns about when doubled.
        return "\\" + char if char in "[]^&~|" else char


@lru_cache(maxsize=256)
def _complement(inside: str) -> str:
    """Return the contents of brackets that match all valid characters except `[inside]`."""
    pattern = re.compile(f"[{inside}]")
    return _ranges(lambda char: not pattern.match(char))
