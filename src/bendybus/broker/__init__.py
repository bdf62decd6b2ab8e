"""What the broker does for clients: one file per verb, over the store seam."""
