"""Restrict the system calls of this process, with Linux's seccomp.

The filter lists what Python, NumPy, JAX and graphmill need to compute and to use files. What it
does not list fails with EPERM: sockets, starting programs and processes, signals to other
processes, tracing, mounting, changing owners and permissions, new namespaces, and whatever Linux
gets in future.
"""

from __future__ import annotations

import errno
import importlib
import os
from typing import Any, Final

_FILES: Final = (
    "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek _llseek close "
    "close_range dup dup2 dup3 flock fsync fdatasync ftruncate ftruncate64 fallocate "
    "fadvise64 fadvise64_64 copy_file_range sendfile sendfile64 open openat openat2 stat stat64 "
    "fstat fstat64 lstat lstat64 newfstatat fstatat64 statx statfs statfs64 fstatfs fstatfs64 "
    "access faccessat faccessat2 readlink readlinkat getcwd getdents getdents64 mkdir mkdirat "
    "rename renameat renameat2 unlink unlinkat rmdir"
)
_WAITING: Final = (
    "pipe pipe2 eventfd2 poll ppoll ppoll_time64 select pselect6 pselect6_time64 epoll_create "
    "epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 restart_syscall"
)
_MEMORY: Final = "brk munmap mremap mprotect madvise mincore msync membarrier"
_THREADS: Final = (
    "futex futex_time64 futex_waitv set_robust_list get_robust_list rseq set_tid_address gettid "
    "sched_yield sched_getaffinity sched_getparam sched_getscheduler "
    "sched_get_priority_max sched_get_priority_min set_thread_area get_thread_area arch_prctl "
    "exit exit_group"
)
_SIGNALS: Final = (
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend "
    "sigreturn sigaltstack"
)
_INFORMATION: Final = (
    "clock_gettime clock_gettime64 clock_getres clock_getres_time64 clock_nanosleep "
    "clock_nanosleep_time64 nanosleep gettimeofday time times getpid getppid getuid geteuid getgid "
    "getegid getgroups getresuid getresgid getpgrp getpgid getsid uname sysinfo getrusage "
    "getrlimit ugetrlimit getrandom getcpu getpriority capget"
)
ALLOWED: Final = tuple(
    " ".join((_FILES, _WAITING, _MEMORY, _THREADS, _SIGNALS, _INFORMATION)).split()
)
"""The system calls that are allowed whatever their arguments are."""

_CLONE_THREAD: Final = 0x10000
_CLONE_NAMESPACES: Final = 0x7E020000  # NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_MAP_ANONYMOUS: Final = 0x20
_MAP_TYPE: Final = 0x0F
_MAP_PRIVATE: Final = 0x02
_PRCTL: Final = (15, 16, 0x53564D41)  # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA
_FCNTL: Final = (*range(8), 36, 37, 38, 1030, 1032, 1033, 1034)
"""Duplicating, flags, locks and seals. With F_SETOWN and F_SETSIG, the kernel would send any signal
to any process of the user."""
_IOCTL: Final = (0x5401, 0x5413, 0x541B, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONCLEX, FIOCLEX."""


def seccomp_library() -> Any:
    """Return the package pyseccomp.

    Raises:
        ImportError: it is not installed.
        RuntimeError: it finds no libseccomp.
    """
    return importlib.import_module("pyseccomp")


def restrict_system_calls() -> None:
    """Deny every system call that is not listed, for this process and all its threads, permanently.

    Raises:
        OSError: the kernel refused.
    """
    library = seccomp_library()
    rules = library.SyscallFilter(library.ERRNO(errno.EPERM))
    rules.set_attr(library.Attr.ACT_BADARCH, library.KILL_PROCESS)
    rules.set_attr(library.Attr.CTL_TSYNC, 1)
    rules.set_attr(library.Attr.CTL_OPTIMIZE, 2)  # a search tree: the list is long
    for name in ALLOWED:
        _add(library, rules, library.ALLOW, name)
    _add_with_arguments(library, rules)
    # The C library falls back to clone, whose flags a filter can see.
    _add(library, rules, library.ERRNO(errno.ENOSYS), "clone3")
    rules.load()


def _add_with_arguments(library: Any, rules: Any) -> None:
    """Allow system calls for some values of their arguments."""
    argument, equal, masked = library.Arg, library.EQ, library.MASKED_EQ
    own = os.getpid()
    threads_only = argument(0, masked, _CLONE_THREAD | _CLONE_NAMESPACES, _CLONE_THREAD)
    _add(library, rules, library.ALLOW, "clone", threads_only)
    for name in ("mmap", "mmap2"):
        # Anonymous memory must be private: RLIMIT_DATA does not count what is shared.
        private = argument(3, masked, _MAP_ANONYMOUS | _MAP_TYPE, _MAP_ANONYMOUS | _MAP_PRIVATE)
        _add(library, rules, library.ALLOW, name, private)
        _add(library, rules, library.ALLOW, name, argument(3, masked, _MAP_ANONYMOUS, 0))
    for name in ("kill", "tgkill"):  # abort() and raise()
        _add(library, rules, library.ALLOW, name, argument(0, equal, own))
    # Its own limits may be read, not changed.
    _add(library, rules, library.ALLOW, "prlimit64", argument(0, equal, 0), argument(2, equal, 0))
    for name in ("fcntl", "fcntl64"):
        for command in _FCNTL:
            _add(library, rules, library.ALLOW, name, argument(1, equal, command))
    for option in _PRCTL:
        _add(library, rules, library.ALLOW, "prctl", argument(0, equal, option))
    for request in _IOCTL:
        _add(library, rules, library.ALLOW, "ioctl", argument(1, equal, request))


def _add(library: Any, rules: Any, action: int, name: str, *arguments: Any) -> None:
    """Add a rule, unless libseccomp or the machine has no such system call."""
    try:
        number = library.resolve_syscall(library.Arch.NATIVE, name)
    except (ValueError, OSError):  # a call that is newer than libseccomp stays denied
        return
    if number >= 0:
        rules.add_rule(action, number, *arguments)
