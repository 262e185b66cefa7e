"""Restrict this process permanently, before it reads an untrusted model.

These modules run in the child process of an isolated model, never in the user's process. They
import the standard library only until the process is restricted: Landlock binds the calling thread
and those that it starts, and NumPy starts threads when it is imported.
"""
