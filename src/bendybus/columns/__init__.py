"""Messages as Arrow columns: what Spark and other bulk clients read and write.

Needs pyarrow and numpy (`pip install bendybus[bulk]`), except `schema`, which is plain Python.
"""
