"""Moves what a store holds to another place while it is served."""
