"""The store's copy of the access rules of namespaces."""

import json

from bendybus.store.entity_text import access_rules_from_plain, access_rules_to_plain
from bendybus.store.port import AccessRecord
from bendybus.store.sql.database import SqlDatabase


def access(database: SqlDatabase) -> list[AccessRecord]:
    """Return the rules of every namespace."""
    return [
        AccessRecord(namespace, version, access_rules_from_plain(json.loads(rules)))
        for namespace, version, rules in database.rows("access")
    ]


def put_access(database: SqlDatabase, record: AccessRecord) -> None:
    """Write the rules of a namespace, unless newer ones are here."""
    rules = json.dumps(access_rules_to_plain(record.rules))
    database.run("put_access", (record.namespace, record.version, rules))
    database.note_catalog_changed()
