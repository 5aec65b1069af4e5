"""Failed assertions of probes and rules show the compared values."""

import pytest

pytest.register_assert_rewrite("tests.conformance.probes", "tests.conformance.rules")
