"""URLs of stores: which are good, which are the same, and what of them is shown."""

import pytest

from bendybus.model.errors import SettingInvalid
from bendybus.model.store_place import read_place

SECRET = "s3cret-of-ours"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://bus:{}@db/orders", "postgresql://bus@db/orders"),
        ("postgres://bus:{}@db:6000/orders", "postgresql://bus@db:6000/orders"),
        ("postgresql://db/orders?password={}", "postgresql://db/orders"),
        (
            "postgresql://bus@a,b:6000/orders?sslmode=require&password={}&connect_timeout=3",
            "postgresql://bus@a,b:6000/orders?sslmode=require&connect_timeout=3",
        ),
        ("postgresql:///orders?host=/run/pg&password={}", "postgresql:///orders?host=/run/pg"),
        ("postgresql://bus:{}%40@[::1]:6000/orders", "postgresql://bus@[::1]:6000/orders"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    place = read_place(url.format(SECRET), "--store")
    assert (place.shown, str(place)) == (shown, shown)
    assert SECRET in place.url
    assert SECRET not in repr(place)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("postgresql://db/orders", "postgres://bus:x@DB:5432/orders?sslmode=require"),
        ("postgresql://a,b/orders", "postgresql://b,a/orders"),
        ("postgresql:///orders", "postgresql://localhost/orders"),
        ("postgresql://x/y?host=db&dbname=orders", "postgresql://db/orders"),
        ("postgresql:///o?host=/run/pg&port=6000", "postgresql://%2Frun%2Fpg:6000/o"),
    ],
)
def test_two_ways_to_name_a_database_are_equal(one: str, other: str) -> None:
    assert read_place(one, "--store") == read_place(other, "--store")


@pytest.mark.parametrize(
    "other", ["postgresql://db/more", "postgresql://db2/orders", "postgresql://db:1/orders"]
)
def test_another_database_host_or_port_is_another_place(other: str) -> None:
    assert read_place("postgresql://db/orders", "--store") != read_place(other, "--store")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"mysql://bus:{SECRET}@db/orders", "begins with postgresql://"),
        (f"bus:{SECRET}@db/orders", "begins with postgresql://"),
        ("", "begins with postgresql://"),
        (f"postgresql://bus:{SECRET}@db", "names no database"),
        (f"postgresql://bus:{SECRET}@db/", "names no database"),
        (f"postgresql://bus:{SECRET}@x@db/orders", "%40"),
        (f"postgresql://bus:{SECRET} x@db/orders", "%20"),
        (f"postgresql://bus:{SECRET}@db:x/orders", "a port that is no number"),
    ],
)
def test_a_wrong_url_is_refused_without_showing_it(url: str, said: str) -> None:
    with pytest.raises(SettingInvalid, match=said) as refused:
        read_place(url, "--store 2")
    assert str(refused.value).startswith("--store 2 ")
    assert SECRET not in str(refused.value)
