"""Lets the shipped contract show what differed when an assertion of it fails."""

import pytest

pytest.register_assert_rewrite("bendybus.testing.store_contract")
