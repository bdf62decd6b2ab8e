"""Which right each action needs: the table, against the documented one."""

import pytest

from bendybus.model.access import AccessRule, Right, claims_of_rule
from bendybus.model.actions import RIGHTS_NEEDED, Action, right_for_operation
from bendybus.model.errors import Unauthorized
from tests.http.store_shelf import NOON

# Written from the documentation, not from the code.
NEEDS_SEND = {"send", "schedule-message", "cancel-scheduled-message", "stage-messages"}
NEEDS_MANAGE = {
    "bendybus:redrive-messages",
    "add-rule",
    "remove-rule",
    "enumerate-rules",
    "manage-entity",
    "manage-access",
    "manage-stores",
    "manage-namespaces",
    "read-metrics",
    "release-reader",
}


def _needed(action: Action) -> Right:
    if action.value in NEEDS_SEND:
        return Right.SEND
    return Right.MANAGE if action.value in NEEDS_MANAGE else Right.LISTEN


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("right", Right)
def test_an_action_is_allowed_by_its_right_and_by_manage_alone(
    action: Action, right: Right
) -> None:
    rule = AccessRule("rule", "key", frozenset({right}))
    claims = claims_of_rule(rule, entity="orders", resource_path="", expires_at=NOON)
    is_allowed = right in (_needed(action), Right.MANAGE)

    assert claims.allows(RIGHTS_NEEDED[action], "orders") is is_allowed
    assert not claims.allows(RIGHTS_NEEDED[action], "others")
    assert not claims.allows(RIGHTS_NEEDED[action])
    if not is_allowed:
        with pytest.raises(Unauthorized, match=f"'{_needed(action).value}' claim"):
            claims.require(RIGHTS_NEEDED[action], "orders", "orders")


def test_every_action_is_in_the_table() -> None:
    assert RIGHTS_NEEDED.keys() == set(Action)


@pytest.mark.parametrize("prefix", ["", "com.microsoft:"])
def test_operations_are_found_with_and_without_their_prefix(prefix: str) -> None:
    assert right_for_operation(f"{prefix}schedule-message") is Right.SEND
    assert right_for_operation(f"{prefix}add-rule") is Right.MANAGE
    assert right_for_operation(f"{prefix}peek-message") is Right.LISTEN
    assert right_for_operation(f"{prefix}no-such-operation") is Right.LISTEN
