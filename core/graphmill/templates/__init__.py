"""Templates of `graphmill new-plugin`: plain files with placeholders for names.

A folder for each kind of plugin holds `plugin.py` (the module's `__init__.py`), other modules, and
`test_plugin.py`; `common` holds what all have. `@name@`, `@Name@` and `@NAME@` stand for the
plugin's name in the three spellings. The files end in `.txt`, so that no tool takes them for code.
"""
