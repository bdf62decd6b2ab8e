"""The management API: entities over HTTP, as ATOM entries (R7)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bendybus.atom.entries import Entry
from bendybus.atom.namespaces import NamespaceDescription
from bendybus.atom.properties import Kind, read_properties
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.create import create
from bendybus.broker.delete import delete
from bendybus.broker.describe import describe, describe_all
from bendybus.broker.rules import add_rule, find_rule, remove_rule, update_rule
from bendybus.broker.served_topic import ServedSubscription
from bendybus.broker.update import update_by
from bendybus.http.api_version import ApiVersion, version_of
from bendybus.http.authorization import Authorization
from bendybus.http.described import Answers, etag_of, moment
from bendybus.http.entity_path import EntityPath, read_path
from bendybus.http.forward_targets import check_targets
from bendybus.http.paging import page_of
from bendybus.http.requested import (
    IsElsewhere,
    changed_entity,
    naming_element,
    new_entity,
    read_body,
    requested_rule,
)
from bendybus.model.access import Claims
from bendybus.model.actions import Action
from bendybus.model.entity import Queue, Subscription, Topic, name_key, subscription_path
from bendybus.model.errors import ArgumentInvalid, EntityNotFound
from bendybus.store.port import EntityRecord

# A path of REST messaging, unless an entity is called so.
_NEXT_MESSAGE: Final = "/messages/head"
_LISTED: Final = {Kind.QUEUE: Queue, Kind.TOPIC: Topic}


def management_routes(
    catalog: Catalog,
    authorization: Authorization,
    clock: Clock,
    is_elsewhere: IsElsewhere = lambda _: False,
) -> list[Route]:
    """Return the one route, which takes all paths that no other has taken."""
    management = Management(catalog, authorization, clock, is_elsewhere)
    return [Route("/{path:path}", management.answer, methods=["GET", "PUT", "DELETE"])]


@dataclass(frozen=True, slots=True)
class _Put:
    """A request to create or change something."""

    request: Request
    path: EntityPath
    version: ApiVersion
    claims: Claims

    @property
    def match(self) -> str | None:
        """What must be there for a change; without it something new is to be created."""
        return self.request.headers.get("if-match")


class Management:
    """Answers requests about the entities of one namespace."""

    def __init__(
        self,
        catalog: Catalog,
        authorization: Authorization,
        clock: Clock,
        is_elsewhere: IsElsewhere,
    ) -> None:
        self._catalog = catalog
        self._authorization = authorization
        self._clock = clock
        self._is_elsewhere = is_elsewhere
        self._started_at = clock.now()

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        path = read_path(request.scope["raw_path"])
        claims = await self._authorization.require(
            request, Action.MANAGE_ENTITY, entity=path.entity
        )
        # Whoever manages sees what was changed through another front end until now.
        await self._catalog.records.following.look()
        version = version_of(request)
        answers = Answers(request, path, version, self._catalog)
        match request.method:
            case "PUT" | "DELETE" if path.is_list or path.kind is Kind.NAMESPACE:
                raise HTTPException(405, headers={"Allow": "GET"})
            case "PUT":
                return await self._put(_Put(request, path, version, claims), answers)
            case "DELETE":
                return await self._delete(path, request.headers.get("if-match", "*"))
            case _ if path.is_list:
                return await self._list(request, path, answers)
            case _:
                return await self._get(path, answers)

    async def _get(self, path: EntityPath, answers: Answers) -> Response:
        if path.kind is Kind.NAMESPACE:
            return answers.namespace(self._namespace_info())
        if path.rule is not None:
            subscription = self._subscription(path)
            rule = find_rule(self._catalog, subscription, path.rule)
            return answers.rule(rule, self._catalog.record(subscription.name))
        try:
            described = await describe(self._catalog, self._name(path))
        except EntityNotFound:
            if path.spelling.lower().endswith(_NEXT_MESSAGE):
                raise HTTPException(405, headers={"Allow": "DELETE, POST"}) from None
            raise
        return answers.entity(described)

    async def _list(self, request: Request, path: EntityPath, answers: Answers) -> Response:
        page = page_of(request)
        if path.kind is Kind.RULE:
            subscription = self._subscription(path)
            rules = sorted(subscription.subscription.rules, key=lambda rule: name_key(rule.name))
            part = page.cut(lambda skip, top: rules[skip : skip + top])
            return answers.rules(part, self._catalog.record(subscription.name), page)
        if path.kind is Kind.SUBSCRIPTION:
            topic = path.entity or ""
            records = page.cut(
                lambda skip, top: self._catalog.subscriptions_of(topic, skip=skip, top=top)
            )
        else:
            assert path.kind is not None, "a list says what it lists"
            kind = _LISTED[path.kind]
            records = page.cut(lambda skip, top: self._catalog.listed(kind, skip=skip, top=top))
        assert path.kind is not None
        return answers.entities(await describe_all(self._catalog, records), path.kind, page)

    async def _put(self, put: "_Put", answers: Answers) -> Response:
        status = 201 if put.match is None else 200
        try:
            entry = read_body(await put.request.body(), put.path, self._is_elsewhere)
            if put.path.rule is not None:
                return await self._put_rule(entry, put, answers, status)
            await self._check_targets(entry, put)
            if put.match is None:
                entity = new_entity(entry, put.path, put.version)
                topic, now = put.path.entity, self._clock.now()
                record = await create(self._catalog, entity, topic=topic, now=now)
            else:
                record = await self._change(entry, put.match, put)
        except ArgumentInvalid as error:
            raise naming_element(error) from None
        [description] = await describe_all(self._catalog, [record])
        return answers.entity(description, status=status)

    async def _check_targets(self, entry: Entry, put: "_Put") -> None:
        name = self._name(put.path)
        await check_targets(
            read_properties(entry.description, entry.kind),
            self._catalog.record(name).messaging_entity if self._catalog.has(name) else None,
            put.claims,
            put.request,
            self._authorization,
        )

    async def _change(self, entry: Entry, match: str, put: "_Put") -> EntityRecord:
        check = _matching(match)

        def changed(record: EntityRecord) -> Queue | Topic | Subscription:
            check(record)
            return changed_entity(entry, record.messaging_entity, put.version)

        return await update_by(self._catalog, self._name(put.path), changed, now=self._clock.now())

    async def _put_rule(self, entry: Entry, put: "_Put", answers: Answers, status: int) -> Response:
        subscription = self._subscription(put.path)
        rule = requested_rule(entry, put.path)
        now = self._clock.now()
        if put.match is None:
            await add_rule(self._catalog, subscription, rule, now=now)
        else:
            check = _matching(put.match)
            await update_rule(self._catalog, subscription, rule, now=now, check=check)
        written = find_rule(self._catalog, subscription, rule.name)
        record = self._catalog.record(subscription.name)
        return answers.rule(written, record, status=status)

    async def _delete(self, path: EntityPath, match: str) -> Response:
        try:
            if path.rule is not None:
                subscription, now = self._subscription(path), self._clock.now()
                check = _matching(match)
                await remove_rule(self._catalog, subscription, path.rule, now=now, check=check)
            else:
                await delete(self._catalog, self._name(path), _matching(match))
        except EntityNotFound:
            raise EntityNotFound("No service is hosted at the specified address.") from None
        return Response(status_code=200)

    def _namespace_info(self) -> NamespaceDescription:
        """Describe the namespace; it is as old as the oldest that it has."""
        records = self._catalog.standing().values()
        times = [at for each in records for at in (each.created_at, each.updated_at) if at]
        return NamespaceDescription(
            name=self._catalog.namespace,
            created_at=moment(min(times, default=self._started_at)),
            modified_at=moment(max(times, default=self._started_at)),
            tier=self._catalog.tier.name.value,
            messaging_units=1 if self._catalog.tier.is_premium else None,
        )

    def _subscription(self, path: EntityPath) -> ServedSubscription:
        return self._catalog.subscription(path.entity or "", path.subscription or "")

    def _name(self, path: EntityPath) -> str:
        """Return the name by which the catalog knows what a path means."""
        if path.subscription is None:
            return path.entity or ""
        return subscription_path(path.entity or "", path.subscription)


def _matching(wanted: str) -> Callable[[EntityRecord], None]:
    """Refuse a change of something else than the client has seen; `*` is whatever there is."""
    known = [each.strip() for each in wanted.split(",")]

    def check(record: EntityRecord) -> None:
        if "*" not in known and etag_of(record) not in known:
            raise HTTPException(412, "The entity has changed since; get it again.")

    return check
