"""The container files name files, extras and Pythons that exist; building them needs Docker."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples" / "containers").glob("Dockerfile.*"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_extras_and_tools_exist(file: Path) -> None:
    text = file.read_text("utf-8")
    extras = re.findall(r"/(?:lite|source)\[([\w,]+)\]", text)
    assert extras
    assert not set(",".join(extras).split(",")) - PROJECT["optional-dependencies"].keys()
    assert [
        tool for tool in re.findall(r"/source/(\S+\.py)", text) if not (ROOT / tool).is_file()
    ] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_base_images_have_one_supported_python(file: Path) -> None:
    text = file.read_text("utf-8")
    versions = set(re.findall(r"^FROM python:(3\.\d+)-slim-trixie", text, re.MULTILINE))
    assert versions == {"3.13"}  # also the Python of distroless/python3-debian13
    assert "Programming Language :: Python :: 3.13" in PROJECT["classifiers"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_program_is_the_command_line_of_a_user_without_rights(file: Path) -> None:
    text = file.read_text("utf-8")
    assert re.search(r'^ENTRYPOINT \["python3?", "-m", "graphmill"\]$', text, re.MULTILINE)
    assert re.search(r"^USER \w+$|:nonroot$", text, re.MULTILINE)


def test_file_on_the_page_needs_no_checkout() -> None:
    page = (ROOT / "docs" / "howto" / "deploy.md").read_text("utf-8")
    (text,) = re.findall(r"```dockerfile\n(.*?)```", page, re.DOTALL)
    assert "COPY" not in text
    (extras,) = re.findall(r"'graphmill-lite\[([\w,]+)\]'", text)
    assert not set(extras.split(",")) - PROJECT["optional-dependencies"].keys()
    assert re.search(r"^FROM python:3\.13-slim-trixie$", text, re.MULTILINE)
    assert re.search(r"^USER \w+$", text, re.MULTILINE)


def test_page_lists_the_files() -> None:
    page = (ROOT / "docs" / "howto" / "deploy.md").read_text("utf-8")
    assert FILES
    assert [file.name for file in FILES if f"`{file.name}`" not in page] == []
