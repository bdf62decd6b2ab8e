"""Hypothesis profiles. Everything else a test needs stands beside the test.

Examples are random in every profile. A failure prints the decorator that brings the very example
back, and pytest-randomly prints the seed of the order at the top of each run.
"""

from hypothesis import HealthCheck, settings

# A deadline measures the machine, not the code; pytest-timeout catches what hangs.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile(
    "prove",
    settings.get_profile("default"),
    max_examples=2_000,
    stateful_step_count=200,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")
