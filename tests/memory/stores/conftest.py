from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.memory.stores.kinds import Kind, kind_named


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """The kind of store that the test's parameter names (indirect)."""
    with kind_named(request.param, request) as found:
        yield found
