"""The command line: `graphmill run`, `show`, `explain`, `ops`, `doctor` and others.

`main.py` is the entry point; `commands` has one module per command. A command imports what it
needs only when it runs, so that the process starts quickly.
"""
