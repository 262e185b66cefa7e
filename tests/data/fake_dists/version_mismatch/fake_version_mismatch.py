"""A plugin for another version of graphmill; it must not be imported."""

from __future__ import annotations

raise AssertionError("imported despite its requirement")
