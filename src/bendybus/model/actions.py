"""What clients do, and the right that each needs, on every door: one table.

`$management` operations go by their own names, without the prefix `com.microsoft:`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from bendybus.model.access import Right


class Action(Enum):
    """Everything that a right is needed for."""

    # AMQP links, and REST
    SEND = "send"
    RECEIVE = "receive"
    # REST, with the lock that a receive gave
    SETTLE = "settle"
    RENEW = "renew"
    # `$management`
    PEEK_MESSAGE = "peek-message"
    RENEW_LOCK = "renew-lock"
    RECEIVE_BY_SEQUENCE_NUMBER = "receive-by-sequence-number"
    UPDATE_DISPOSITION = "update-disposition"
    RENEW_SESSION_LOCK = "renew-session-lock"
    SET_SESSION_STATE = "set-session-state"
    GET_SESSION_STATE = "get-session-state"
    GET_MESSAGE_SESSIONS = "get-message-sessions"
    BATCH_DELETE_MESSAGES = "batch-delete-messages"
    DELETE_MESSAGES = "bendybus:delete-messages"
    DELETE_SELECTED_MESSAGES = "bendybus:delete-selected-messages"
    QUEUE_EXTENT = "bendybus:queue-extent"
    REDRIVE_MESSAGES = "bendybus:redrive-messages"
    SCHEDULE_MESSAGE = "schedule-message"
    CANCEL_SCHEDULED_MESSAGE = "cancel-scheduled-message"
    ADD_RULE = "add-rule"
    REMOVE_RULE = "remove-rule"
    ENUMERATE_RULES = "enumerate-rules"
    # HTTP
    MANAGE_ENTITY = "manage-entity"
    MANAGE_ACCESS = "manage-access"
    MANAGE_STORES = "manage-stores"
    MANAGE_NAMESPACES = "manage-namespaces"
    READ_METRICS = "read-metrics"
    # Flight
    DESCRIBE_QUEUE = "describe-queue"
    READ_MESSAGES = "read-messages"
    RESERVE_MESSAGES = "reserve-messages"
    RELEASE_READER = "release-reader"
    STAGE_MESSAGES = "stage-messages"


RIGHTS_NEEDED: Final[Mapping[Action, Right]] = {
    Action.SEND: Right.SEND,
    Action.RECEIVE: Right.LISTEN,
    Action.SETTLE: Right.LISTEN,
    Action.RENEW: Right.LISTEN,
    Action.PEEK_MESSAGE: Right.LISTEN,
    Action.RENEW_LOCK: Right.LISTEN,
    Action.RECEIVE_BY_SEQUENCE_NUMBER: Right.LISTEN,
    Action.UPDATE_DISPOSITION: Right.LISTEN,
    Action.RENEW_SESSION_LOCK: Right.LISTEN,
    Action.SET_SESSION_STATE: Right.LISTEN,
    Action.GET_SESSION_STATE: Right.LISTEN,
    Action.GET_MESSAGE_SESSIONS: Right.LISTEN,
    Action.BATCH_DELETE_MESSAGES: Right.LISTEN,
    Action.DELETE_MESSAGES: Right.LISTEN,
    Action.DELETE_SELECTED_MESSAGES: Right.LISTEN,
    Action.QUEUE_EXTENT: Right.LISTEN,
    Action.REDRIVE_MESSAGES: Right.MANAGE,
    Action.SCHEDULE_MESSAGE: Right.SEND,
    Action.CANCEL_SCHEDULED_MESSAGE: Right.SEND,
    Action.ADD_RULE: Right.MANAGE,
    Action.REMOVE_RULE: Right.MANAGE,
    Action.ENUMERATE_RULES: Right.MANAGE,
    Action.MANAGE_ENTITY: Right.MANAGE,
    Action.MANAGE_ACCESS: Right.MANAGE,
    Action.MANAGE_STORES: Right.MANAGE,
    Action.MANAGE_NAMESPACES: Right.MANAGE,
    Action.READ_METRICS: Right.MANAGE,
    Action.DESCRIBE_QUEUE: Right.LISTEN,
    Action.READ_MESSAGES: Right.LISTEN,
    Action.RESERVE_MESSAGES: Right.LISTEN,
    Action.RELEASE_READER: Right.MANAGE,
    Action.STAGE_MESSAGES: Right.SEND,
}


def right_for_operation(operation: str) -> Right:
    """Return the right that a `$management` operation needs; of an unknown one, the least."""
    try:
        return RIGHTS_NEEDED[Action(operation.removeprefix("com.microsoft:"))]
    except ValueError:
        return Right.LISTEN
