"""Failed assertions of probes and rules say what they compared."""

import pytest

pytest.register_assert_rewrite("tests.conformance.probes", "tests.conformance.rules")
