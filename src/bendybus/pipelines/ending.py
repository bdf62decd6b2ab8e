"""Where a stream ends that takes what is there now, where Spark itself ends after one batch."""

import json

from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_values import Place


def ending_now(client: BulkClient, place: Place) -> dict[str, str]:
    """Return the option of the data source by which a stream takes nothing that comes later.

    A store that is away cannot be asked, and its fragments have no end.
    """
    fragments = client.describe(place).fragments
    ends = {each.fragment: each.next_sequence for each in fragments if each.is_online}
    return {"endingOffsets": json.dumps(ends)} if ends else {}
