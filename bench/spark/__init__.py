"""Bulk work by Spark, beside Spark doing the same with files of Parquet in the same run."""
