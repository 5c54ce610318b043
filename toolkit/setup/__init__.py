"""What ./quickstart does: makes .venv (or .venv-v100) from the pinned requirements and starts a command in it.

It runs before anything is installed, so it needs the standard library only.
"""
