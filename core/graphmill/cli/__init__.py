"""The command line: `graphmill show`, `run`, `devices`, `plugins`, `ops`.

`main.py` is the entry point, `commands` has a module per command. What a command needs is
imported when that command runs, so that `graphmill run` answers soon after the process starts.
"""
