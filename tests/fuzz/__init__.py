"""Fuzzers of everything that reads a file or a word from elsewhere. `python -m tests.fuzz --minutes 10`.

An input is a small folder, {name: bytes}. A target (of_files.py, of_folders.py) has inputs that are right (corpus.py),
ways to damage them (mutate.py), and a reader. The reader must succeed or refuse in one line (harness.py).
"""
