"""Messaging stores in SQLite files: one file, one writer thread, group commit."""
