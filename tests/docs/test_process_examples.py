"""The example programs on processes run; a run writes no file and needs no home folder."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PROCESSES = ROOT / "examples" / "processes"
DIGITS = ROOT / "examples" / "digits"
# An audit hook sees every attempt to write, whoever runs the test and wherever it is mounted.
READ_ONLY = """
import os, sys

def refuse(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)) and arguments[0] != os.devnull:
        if arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(30, "Read-only file system", os.fsdecode(arguments[0]))
    if event in ("os.mkdir", "os.rename", "os.remove", "tempfile.mkstemp"):
        raise OSError(30, f"Read-only file system: {event} {arguments}")

sys.addaudithook(refuse)
from graphmill.cli.main import main
main()
"""


def load(name: str) -> dict[str, Any]:
    file = PROCESSES / name
    namespace: dict[str, Any] = {"__name__": "example", "__file__": str(file)}
    exec(compile(file.read_text("utf-8"), str(file), "exec"), namespace)
    return namespace


def call(application: Any, body: bytes) -> tuple[str, bytes]:
    """Call a WSGI application as a server does."""
    said: list[str] = []
    environ = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
    parts = application(environ, lambda status, headers: said.append(status))
    return said[0], b"".join(parts)


def test_application_answers_in_a_forked_worker() -> None:
    program = f"""
import os, sys
sys.path[:0] = [{str(ROOT)!r}, {str(PROCESSES)!r}]
from tests.docs.test_process_examples import call
from wsgi import application
status = 1
if (worker := os.fork()) == 0:
    body = b"[" + b"[" + b",".join([b"[" + b",".join([b"[0.5]"] * 8) + b"]"] * 8) + b"]" + b"]"
    for _ in range(3):
        answer = call(application, body)
    os._exit(answer[0] != "200 OK")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
"""
    if not hasattr(os, "fork"):
        pytest.skip("there is no os.fork")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_application_classifies_images_and_refuses_other_files() -> None:
    application = load("wsgi.py")["application"]
    with np.load(DIGITS / "heldout.npz") as digits:
        images, labels = digits["image"][:5] / 255.0, digits["label"][:5]
    status, answer = call(application, json.dumps(images.tolist()).encode())
    assert (status, json.loads(answer)) == ("200 OK", labels.tolist())
    assert call(application, b"no json")[0] == "400 Bad Request"
    assert call(application, b"[1.0, 2.0]")[0] == "400 Bad Request"


@pytest.mark.divided
def test_spawned_workers_classify() -> None:
    program = [sys.executable, str(PROCESSES / "spawned.py")]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "accuracy 0.9933\n"


def test_a_run_writes_no_file_and_needs_no_home() -> None:
    arguments = ["run", str(DIGITS / "saved_model_tf2"), f"image=@{DIGITS / 'seven.png'}"]
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "TMPDIR")}
    done = subprocess.run(
        [sys.executable, "-B", "-c", READ_ONLY, *arguments],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "[7]" in done.stdout
