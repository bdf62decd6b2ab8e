"""The bulk door, as a pipeline reaches it beside Spark's data source."""

from bendybus.client.bulk import BulkClient
from bendybus.pipelines.options import BusOptions


def bulk_client(options: BusOptions) -> BulkClient:
    """Return a client of the namespace that the options name. It may be sent to workers."""
    return BulkClient(
        options.connection_string, options.flight_endpoint, authority=options.authority
    )
