"""A plugin for a graphmill that is not this one; it must not even be imported."""

from __future__ import annotations

raise AssertionError("imported despite its requirement")
