"""Everything that graphmill changes in, or assumes about, the process that it runs in.

`effects` declares each effect with its opt-out; the other modules carry them out, one each. No
other module of graphmill calls such functions (tests/unit/runtime/process/test_only_here.py).
"""
