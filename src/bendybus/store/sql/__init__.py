"""What stores in SQL databases have in common: one writer at a time, group commit, same rows."""
