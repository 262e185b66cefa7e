"""Check the messages of commits against the rules of CONTRIBUTING.md.

    python tools/check_commits.py                 commits since these rules were introduced
    python tools/check_commits.py RANGE           a git range: main..HEAD

A subject has at most 72 characters, begins with a verb in the imperative, ends without a full stop,
and names one concern. After an empty line, a body says why. Only Python and git are needed. Without
history (a source archive, a shallow clone) the tool prints a note and checks nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
SINCE: Final = "cc73359c28ebd7620aeba9da2d1a56774413f559"
"""The last commit that is not checked; some before it break the rules and cannot be changed."""
MAX_SUBJECT_LENGTH: Final = 72
_VERBS: Final = """
abort accept adapt add adjust align allow annotate answer apply ask assert assign avoid backport
batch begin bind block bound build bump cache call cancel cap catch change check choose clarify
clean clear close collect combine compare compile complete compute configure convert copy correct
count cover create cut deal declare decode decompress decouple default defer define delay delete
deprecate derive describe detect disable discard distinguish divide document donate download draw
drop dump embed emit enable encode end enforce ensure erase evaluate evict exclude execute expand
expect explain export expose extend extract fail feed fetch fill filter find fix flatten flush
follow forbid force fork format forward free freeze fuse fuzz generate get give group guard guess
handle harden hash hide hoist hold honor honour ignore implement import improve include increase
index infer inline insert install interpret invalidate isolate join judge keep know label launch
lead let limit link list load locate lock log look lower make map mark match measure memoize mend
merge migrate mock move multiply name narrow negotiate normalize note number obey omit open optimize
order pack pad parse pass permit pin place plan poll preallocate prefer prepare preserve prevent
print profile propagate protect prove provide prune publish pull push put query queue quote raise
read rebuild recompute record recover reduce refactor reference refuse regenerate register reject
relax release reload remove rename render reorder repair repeat replace replay report request
require reserve reset reshape resolve respect restore restrict retire retry return reuse revert
reword rewrite roll rotate round route run sample save say scatter schedule scope search select send
separate serialize serve set share ship shorten show shrink simplify skip sort speed split stabilize
standardize start state stop store stream strip submit suggest support suppress swap switch
synchronize tag take teach tell test throttle time tolerate trace track train transfer translate
treat trim try turn type unify unpack unroll update upgrade use validate vectorize verify wait warm
warn watch widen word wrap write
"""
VERBS: Final = frozenset(_VERBS.split())
"""The verbs that subjects may begin with; add a verb if it is missing."""


_UNAMBIGUOUS: Final = """
add allow avoid delete describe distinguish drop ensure explain extend fix give improve keep let
make merge permit prevent raise reduce refactor refuse reject remove rename reorder replace require
resolve restore retire reword rewrite simplify skip speed stabilize suppress teach tell unify
validate verify
"""
_CLEAR: Final = frozenset(_UNAMBIGUOUS.split())
"""The verbs that are hardly ever nouns; joined to an object, they begin a second imperative."""
_JOINED: Final = re.compile(
    r"(?:; |, and |, then | and (?=\w+ (?:the|a|an|its|their|all|no|each|what|how)\b))(?P<verb>\w+)"
)
"""Two imperatives. Without a comma the second needs an object, as many verbs are also nouns."""
_ADDED: Final = re.compile(
    r",? (?:and|&|\+|then|also)(?: then| also)? (?P<verb>\w+)(?= \w)|, (?P<next>\w+)(?= \w)"
)
"""A conjunction or a comma before a word that has an object."""


class Commit(NamedTuple):
    """The id and the message of a commit."""

    id: str
    message: str


def faults(message: str) -> Iterator[str]:
    """Yield the faults of a commit message."""
    subject, _, rest = message.strip().partition("\n")
    if len(subject) > MAX_SUBJECT_LENGTH:
        yield f"the subject has {len(subject)} characters; at most {MAX_SUBJECT_LENGTH} are allowed"
    words = subject.split()
    if not words or words[0].lower().rstrip(",") not in VERBS:
        first = words[0] if words else ""
        yield f"the subject begins with {first!r}, not with an imperative of VERBS in this tool"
    elif not words[0][0].isupper():
        yield "the subject begins with a lower-case letter"
    elif len(words) == 1:
        yield "the subject has only one word; say what changes"
    if subject.endswith("."):
        yield "the subject ends with a full stop"
    if second := _second_concern(subject):
        yield f"the subject names two concerns ('… {second}'); make two commits"
    body = rest.lstrip("\n")
    if not body:
        yield "there is no body; say why"
    elif not rest.startswith("\n"):
        yield "there is no empty line between subject and body"


def _second_concern(subject: str) -> str:
    """Return the second of two imperatives that a subject joins, with its conjunction, or ""."""
    for match in _JOINED.finditer(subject):
        if match["verb"] in VERBS:
            return match[0].strip(" ,")
    first = subject.partition(" ")[0].lower()
    for match in _ADDED.finditer(subject):
        has_object = " " in subject[: match.start()]  # "Read and write files" is one concern
        if has_object and (match["verb"] or match["next"]) in _CLEAR | {first}:
            return match[0].strip(" ,")
    return ""


def commits(revisions: str) -> list[Commit]:
    """Return the commits of a range, without merges.

    Raises:
        subprocess.CalledProcessError: git does not know the range.
    """
    command = ["git", "log", "--no-merges", "--format=%h%x1f%B%x1e", revisions]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    entries = filter(None, (entry.strip() for entry in done.stdout.split("\x1e")))
    return [Commit(*entry.split("\x1f", 1)) for entry in entries]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a range; return 1 if a message breaks a rule."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("range", nargs="?", help=f"default: {SINCE[:12]}..HEAD")
    options = parser.parse_args(arguments)
    try:
        checked = commits(options.range or f"{SINCE}..HEAD")
    except (OSError, subprocess.CalledProcessError) as error:
        if options.range:
            print(f"git does not know {options.range}: {error}", file=sys.stderr)
            return 2
        print(f"no history since {SINCE[:12]} here: no commit was checked")
        return 0
    bad = 0
    for commit in checked:
        for fault in faults(commit.message):
            bad += 1
            print(f"{commit.id} {commit.message.splitlines()[0]!r}: {fault}")
    print(f"{len(checked)} commits, {bad} faults")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
