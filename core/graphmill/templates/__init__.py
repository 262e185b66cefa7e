"""Templates of `graphmill new-plugin`: plain files with placeholders for names.

The folder of each kind of plugin holds `plugin.py` (which becomes the package's `__init__.py`),
other modules, and `test_plugin.py`; `common` holds the files that every plugin has. `@name@`,
`@Name@` and `@NAME@` are replaced by the plugin's name in these spellings. The files end in `.txt`,
so that no tool treats them as code.
"""
