"""A messaging store in a PostgreSQL database, which many front ends may share."""
