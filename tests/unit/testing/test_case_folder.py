"""Folders of cases that read and write files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphmill.testing.case_folder import case_folder


def test_case_with_tmp_gets_its_own_folder(make_cases):
    (case,) = make_cases("[[ReadFile]]\nin = [\"string: ['{tmp}/a', 'b']\"]")
    (value,) = case.values()
    with case_folder(case) as folder:
        inside = folder.inside(value)
        path = Path(inside[0].decode())
        assert path.parent.is_dir()
        assert inside[1] == b"b"
        assert folder.outside(inside).tolist() == [b"{tmp}/a", b"b"]
    assert not path.parent.exists()


def test_another_case_gets_none(make_cases):
    (case,) = make_cases("[[ReadFile]]\nin = [\"string: 'a'\"]")
    with case_folder(case) as folder:
        assert folder.inside(np.array([b"{tmp}"], object)).tolist() == [b"{tmp}"]


def test_program_case_gets_folder_through_its_feeds(make_cases):
    feed = "feed = { f = \"string: '{tmp}/a'\" }"
    (case,) = make_cases(f"[[ReadFile]]\n{feed}\nnodes = ['y = ReadFile(f)']\nrun = ['y']")
    with case_folder(case) as folder:
        assert folder.inside(np.array([b"{tmp}"], object)).tolist() != [b"{tmp}"]
