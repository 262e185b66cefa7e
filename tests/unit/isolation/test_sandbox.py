"""The operating system confines an isolated model whose kernels run arbitrary code.

The sessions are opened with `trust=True`, so access rules do not apply: only the sandbox protects.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from graphmill import errors
from graphmill.isolation import IsolationLimits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from graphmill.isolation import IsolatedSession

    Make = Callable[..., IsolatedSession]

pytestmark = pytest.mark.divided

_DENIED = r"Permission denied|Operation not permitted|not allowed to raise"
_SYSCALL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(VALUES) == -1:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""


def system_call(number: int, *arguments: str) -> str:
    """Return code that makes a system call of x86-64, past Python and the C library."""
    values = ", ".join((f"ctypes.c_long({number})", *arguments))
    return _SYSCALL.replace("VALUES", values)


FILES = {
    "read a file": "open('/etc/passwd').read()",
    "read a file beside the model": "open({secret!r}).read()",
    "read it through a link": "open('/proc/self/root' + {secret!r}).read()",
    "read it in a thread": (
        "import concurrent.futures as c\n"
        "with c.ThreadPoolExecutor() as pool: pool.submit(open, {secret!r}).result()"
    ),
    "list a folder": "import os; os.listdir('/')",
    "list the folder of the model": "import os; os.listdir({folder!r})",
    "write a file": "open({folder!r} + '/new', 'w')",
    "write a temporary file": "import tempfile; tempfile.TemporaryFile(dir='/tmp')",
    "overwrite the model": "open({model!r}, 'r+b')",
    "delete the model": "import os; os.unlink({model!r})",
    "rename the model": "import os; os.rename({model!r}, {folder!r} + '/new')",
    "cut the model": "import os; os.truncate({model!r}, 0)",
    "change permissions": "import os; os.chmod({model!r}, 0o777)",
    "change times": "import os; os.utime({model!r}, (0, 0))",
    "make a folder": "import os; os.mkdir({folder!r} + '/new')",
    "make a link": "import os; os.symlink('/etc', {folder!r} + '/new')",
    "make a hard link": "import os; os.link({model!r}, {folder!r} + '/new')",
    "open the terminal": "open('/dev/tty')",
    "read the parent's environment": "import os; open(f'/proc/{{os.getppid()}}/environ').read()",
    "read the parent's memory": "import os; open(f'/proc/{{os.getppid()}}/mem', 'rb')",
}
SYSTEM = {
    "open a socket": "import socket; socket.socket()",
    "open a local socket": "import socket; socket.socketpair()",
    "fork": "import os; pid = os.fork(); pid or os._exit(0)",
    "run a program": "import subprocess; subprocess.run(['/bin/true'])",
    "spawn a program": "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "become a program": "import os; os.execv('/bin/true', ['true'])",
    "signal the parent": "import os; os.kill(os.getppid(), 0)",
    "signal everybody": "import os; os.kill(-1, 0)",
    "let the kernel signal the parent": (
        "import fcntl, os; fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, os.getppid())"
    ),
    "choose the signal of a pipe": "import fcntl, os; fcntl.fcntl(os.pipe()[0], 10, 9)",
    "choose the parent's processors": "import os; os.sched_setaffinity(os.getppid(), {0})",
    "change the parent's priority": "import os; os.setpriority(os.PRIO_PROCESS, os.getppid(), 9)",
    "raise a limit": "import resource as r; r.setrlimit(r.RLIMIT_CPU, (-1, -1))",
    "raise a limit of the parent": (
        "import os, resource as r; r.prlimit(os.getppid(), r.RLIMIT_NOFILE, (9, 9))"
    ),
    "make anonymous shared memory": "import mmap; mmap.mmap(-1, 4096)",
    "make a file in memory": "import os; os.memfd_create('x')",
    "become another user": "import os; os.setuid(65534)",
    "push to the terminal": "import fcntl; fcntl.ioctl(2, 0x5412, b'x')",
}
SYSTEM_CALLS = {
    "call vfork": system_call(58),
    "call ptrace": system_call(101, "16", "os.getppid()", "0", "0"),
    "call process_vm_readv": system_call(310, "os.getppid()", "0", "0", "0", "0", "0"),
    "call unshare": system_call(272, "0x10000000"),
    "call mount": system_call(165, "0", "0", "0", "0", "0"),
    "call io_uring_setup": system_call(425, "1", "0"),
    "call bpf": system_call(321, "0", "0", "0"),
    "call userfaultfd": system_call(323, "0"),
    "call keyctl": system_call(250, "0", "0", "0"),
    "call pidfd_open": system_call(434, "os.getppid()", "0"),
    "call a system call of the future": system_call(999),
    "call clone with a namespace": system_call(56, "0x10000000 | 17", "0", "0", "0", "0"),
}


def attempt(session: IsolatedSession, code: str) -> None:
    session.run("run:0", {"code:0": code})


def outcome_of(session: IsolatedSession, code: str) -> str:
    """Return "denied", or a description of the actual outcome."""
    try:
        attempt(session, code)
    except errors.OpError as error:
        return "denied" if re.search(_DENIED, error.message) else error.message
    return "succeeded"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("secret")
    return path


def test_no_file_can_be_reached(isolated: Make, model: Path, secret: Path) -> None:
    content = model.read_bytes()
    session = isolated(trust=True)
    names = {"secret": str(secret), "model": str(model), "folder": str(model.parent)}
    outcomes = {what: outcome_of(session, code.format(**names)) for what, code in FILES.items()}
    assert outcomes == dict.fromkeys(FILES, "denied")
    assert os.listdir(model.parent) == [model.name]  # noqa: PTH208 - names
    assert model.read_bytes() == content


def test_no_other_process_and_no_network_can_be_reached(isolated: Make) -> None:
    attempts = {**SYSTEM, **(SYSTEM_CALLS if os.uname().machine == "x86_64" else {})}
    session = isolated(trust=True)
    outcomes = {what: outcome_of(session, code) for what, code in attempts.items()}
    assert outcomes == dict.fromkeys(attempts, "denied")


def test_rules_for_files_allow_the_files_that_they_name(isolated: Make, tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("readable", "listed", "writable")}
    for folder in folders.values():
        folder.mkdir()
        (folder / "old").write_text("old")
    rules = [f"fs.{kind}:{tmp_path / folder}" for kind, folder in
             (("read", "readable"), ("list", "listed"), ("write", "writable"))]  # fmt: skip
    session = isolated(allow=rules)
    read = session.run("run:0", {"code:0": f"result = open('{tmp_path}/readable/old').read()"})
    assert read == b"old"
    attempt(session, f"import os; os.listdir('{tmp_path}/listed')")
    writing = "\n".join((
        "import os; os.chdir = None",
        f"folder = '{tmp_path}/writable'",
        "os.mkdir(folder + '/sub'); open(folder + '/sub/a', 'w').write('new')",
        "os.replace(folder + '/sub/a', folder + '/b'); os.rmdir(folder + '/sub')",
        "os.unlink(folder + '/old')",
    ))  # fmt: skip
    attempt(session, writing)
    assert (folders["writable"] / "b").read_text() == "new"
    assert not (folders["writable"] / "old").exists()
    for code in (
        f"import os; os.listdir('{tmp_path}/readable')",
        f"open('{tmp_path}/listed/old')",
        f"open('{tmp_path}/readable/old', 'a')",
        f"import os; os.symlink('/etc', '{tmp_path}/writable/link')",
    ):
        with pytest.raises(errors.OpError, match=_DENIED):
            attempt(session, code)


def test_rules_of_graphmill_hold_in_the_process(isolated: Make, secret: Path) -> None:
    graph = isolated(allow=[f"fs.read:{secret}"])
    assert graph.allowed == (f"fs.read:{secret}",)
    assert isolated().allowed == ()
    assert isolated(trust=True).allowed is None


def test_protection_that_is_not_required_is_not_applied(isolated: Make, secret: Path) -> None:
    seccomp = isolated(limits=IsolationLimits(require=("seccomp",)))
    attempt(seccomp, f"open({str(secret)!r}).read()")
    with pytest.raises(errors.OpError, match=_DENIED):
        attempt(seccomp, SYSTEM["open a socket"])
    landlock = isolated(limits=IsolationLimits(require=("landlock",)))
    attempt(landlock, SYSTEM["open a local socket"])
    with pytest.raises(errors.OpError, match=_DENIED):
        attempt(landlock, f"open({str(secret)!r}).read()")
