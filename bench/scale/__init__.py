"""What there is to gain past one process: PostgreSQL stores, workers, many front ends."""
