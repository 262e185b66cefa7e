"""Kernels that cannot be imported here."""

from __future__ import annotations

import npulib_that_nobody_has  # noqa: F401
