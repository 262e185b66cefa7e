"""The command line: `graphmill show`, `run`, `devices`, `plugins`, `ops`.

`main.py` is the door; there is one module per command. Everything that a command needs is
imported when that command runs, so that `graphmill run` answers soon after the process starts.
"""
