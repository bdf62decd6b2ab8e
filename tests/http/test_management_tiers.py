"""What the tier of a namespace makes of entities that are managed over HTTP."""

from pathlib import Path

import pytest

from bendybus.atom.namespaces import read_namespace
from bendybus.atom.properties import Kind
from bendybus.model.tier import PremiumPartitioning, Tier, TierName
from tests.http.managing import managing, subcode

NEVER = Tier(TierName.PREMIUM)
ALWAYS = Tier(TierName.PREMIUM, PremiumPartitioning.ALWAYS)
BY_NAMESPACE = Tier(TierName.PREMIUM, PremiumPartitioning.NAMESPACE, namespace_fragments=4)


@pytest.mark.spec("R1.4")
@pytest.mark.parametrize(
    ("tier", "is_wanted", "fragments"),
    [
        pytest.param(Tier(TierName.BASIC), True, 16, id="Basic"),
        pytest.param(Tier(), True, 16, id="Standard"),
        pytest.param(Tier(), False, 1, id="Standard, conventional"),
        pytest.param(ALWAYS, False, 2, id="Premium, always"),
        pytest.param(BY_NAMESPACE, False, 4, id="Premium, by namespace"),
        pytest.param(NEVER, False, 1, id="Premium, never"),
    ],
)
async def test_the_size_that_is_shown_is_that_of_all_fragments_and_stays_when_sent_back(
    tmp_path: Path, tier: Tier, is_wanted: bool, fragments: int
) -> None:
    async with managing(tmp_path, tier=tier) as administrator:
        made = await administrator.create(
            "/q", Kind.QUEUE, enable_partitioning=is_wanted, max_size_megabytes=5120
        )
        assert made.status_code == 201, made.text
        shown = await administrator.properties("/q")
        assert shown["max_size_megabytes"] == 5120 * fragments
        assert shown["enable_partitioning"] is (fragments > 1)
        again = await administrator.call("PUT", "/q", made.content, {"If-Match": "*"})
        assert again.status_code == 200, again.text
        assert await administrator.properties("/q") == shown
        queue = administrator.broker.queue("q")
        assert len(queue.main.sources) == fragments


@pytest.mark.spec("R1.4")
async def test_partitioning_is_refused_where_premium_has_none(tmp_path: Path) -> None:
    async with managing(tmp_path, tier=NEVER) as administrator:
        answer = await administrator.create("/q", Kind.QUEUE, enable_partitioning=True)
        assert subcode(answer) == "400/40000"
        assert "EnablePartitioning" in answer.text
        assert not administrator.broker.catalog.has("q")


@pytest.mark.spec("R1.4")
async def test_the_basic_tier_has_no_topics(tmp_path: Path) -> None:
    async with managing(tmp_path, tier=Tier(TierName.BASIC)) as administrator:
        assert subcode(await administrator.create("/t", Kind.TOPIC)) == "400/40000"
        assert not administrator.broker.catalog.has("t")


@pytest.mark.spec("R1.4")
@pytest.mark.parametrize(
    ("tier", "kilobytes", "status"),
    [
        pytest.param(Tier(), 256, 201, id="Standard has one size"),
        pytest.param(Tier(), 1024, 400, id="Standard has no other"),
        pytest.param(NEVER, 1023, 400, id="too small for Premium"),
        pytest.param(NEVER, 1024, 201, id="the least of Premium"),
        pytest.param(NEVER, 102_400, 201, id="the most of Premium"),
        pytest.param(NEVER, 102_401, 400, id="too large for Premium"),
    ],
)
async def test_the_tier_bounds_the_size_of_messages(
    tmp_path: Path, tier: Tier, kilobytes: int, status: int
) -> None:
    async with managing(tmp_path, tier=tier) as administrator:
        answer = await administrator.create("/q", Kind.QUEUE, max_message_size_kilobytes=kilobytes)
        assert answer.status_code == status, answer.text
        assert status == 201 or "MaxMessageSizeInKilobytes" in answer.text


async def test_the_namespace_says_its_tier(tmp_path: Path) -> None:
    for tier, units in ((Tier(TierName.BASIC), None), (Tier(), None), (NEVER, 1)):
        folder = tmp_path / tier.name.value
        folder.mkdir()
        async with managing(folder, tier=tier) as administrator:
            entry = await administrator.entry("/$namespaceinfo")
            shown = read_namespace(entry.description)
            assert (shown.tier, shown.messaging_units) == (tier.name.value, units)
