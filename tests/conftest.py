"""Hypothesis profiles for all tests, chosen by the variable HYPOTHESIS_PROFILE."""

import os

from hypothesis import HealthCheck, settings

# `ci` is the default: bounded, and the same examples in each run, so that a failure is always of
# the change at hand. `long` searches at random; what it finds becomes an example in a test. Spark
# takes its time with the first jobs, so neither has a deadline.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=40, print_blob=True)
settings.register_profile(
    "long",
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
