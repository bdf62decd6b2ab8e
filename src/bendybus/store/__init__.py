"""Where messages live: the seam (`port`) and the databases behind it."""
