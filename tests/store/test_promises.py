"""The seam's promises and the contract's tests name each other."""

import re

from bendybus.store.port import MessageStore
from bendybus.testing.store_contract import StoreContract
from bendybus.testing.store_contract.sharing import SharingContract


def test_every_promise_of_the_seam_has_a_test_and_every_test_a_promise() -> None:
    text = MessageStore.__doc__ or ""
    promised = {int(number) for number in re.findall(r"^ *(\d+)\. ", text, flags=re.MULTILINE)}
    tested = {
        getattr(contract, name).promise
        for contract in (StoreContract, SharingContract)
        for name in dir(contract)
        if name.startswith("test_")
    }
    assert promised
    assert tested == promised
