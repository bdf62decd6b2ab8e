"""What the page about managing entities says by example is so."""

import re
from datetime import timedelta
from pathlib import Path

from tests.http.managing import managing

PAGE = Path(__file__).parents[2] / "docs" / "management.md"


async def test_the_request_by_hand_makes_the_queue_that_it_describes(tmp_path: Path) -> None:
    found = re.search(r"<<'END'\n(.*?)END\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    async with managing(tmp_path) as administrator:
        answer = await administrator.call("PUT", "/invoices", found[1])
        assert answer.status_code == 201, answer.text
        made = administrator.broker.queue("invoices").properties
    assert made.lock_duration == timedelta(seconds=30)
    assert (made.max_delivery_count, made.enable_partitioning) == (5, True)
