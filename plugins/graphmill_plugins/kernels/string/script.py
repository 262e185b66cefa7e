"""UnicodeScript: the script of each character.

Semantics: tensorflow/core/kernels/unicode_script_op.cc. `scripts.json` lists the first character of
each run of characters of one script, from Unicode's `Scripts.txt` (version 15), with the code of
the script in ICU (`UScriptCode`).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi import kernel

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_MAX_CODE_POINT = 0x10FFFF
_INVALID = -1


@cache
def _runs() -> tuple[Any, Any]:
    """Return the first characters of the runs, and their scripts."""
    runs = json.loads(Path(__file__).with_name("scripts.json").read_text("utf-8"))
    starts, scripts = np.array(runs, np.int32).T.copy()
    return starts, scripts


@kernel("UnicodeScript")
def unicode_script(xp: ArrayNamespace, characters: Value) -> Value:
    """Return the script code of each character, -1 for invalid code points."""
    starts, scripts = _runs()
    run = xp.searchsorted(xp.asarray(starts), characters, side="right") - 1
    codes = xp.asarray(scripts)[xp.clip(run, 0, len(scripts) - 1)]
    is_character = (characters >= 0) & (characters <= _MAX_CODE_POINT)
    return xp.where(is_character, codes, np.int32(_INVALID)).astype(np.int32)
