"""What every store must do, as tests: one suite, inherited and run against each store.

A subclass supplies one fixture, `make_store`; see `StoreMaker`. Each test names the promise of
`bendybus.store.port` that it checks.
"""

from bendybus.testing.store_contract.access import AccessContract
from bendybus.testing.store_contract.accounting import AccountingContract
from bendybus.testing.store_contract.acquiring import AcquiringContract
from bendybus.testing.store_contract.browsing import BrowsingContract
from bendybus.testing.store_contract.catalog import CatalogContract
from bendybus.testing.store_contract.coming_back import ComingBackContract
from bendybus.testing.store_contract.committing import CommittingContract
from bendybus.testing.store_contract.counting import CountingContract
from bendybus.testing.store_contract.damage import DamageContract
from bendybus.testing.store_contract.deferring import DeferringContract
from bendybus.testing.store_contract.duplicates import DuplicatesContract
from bendybus.testing.store_contract.figures import FiguresContract
from bendybus.testing.store_contract.guards import GuardsContract
from bendybus.testing.store_contract.in_hand import InHandContract
from bendybus.testing.store_contract.moving import MovingContract
from bendybus.testing.store_contract.numbering import NumberingContract
from bendybus.testing.store_contract.purging import PurgingContract
from bendybus.testing.store_contract.readers import ReadersContract
from bendybus.testing.store_contract.removing import RemovingContract
from bendybus.testing.store_contract.requeueing import RequeueingContract
from bendybus.testing.store_contract.reserving import ReservingContract
from bendybus.testing.store_contract.reserving_published import ReservingPublishedContract
from bendybus.testing.store_contract.reserving_sessions import ReservingSessionsContract
from bendybus.testing.store_contract.scanning import ScanningContract
from bendybus.testing.store_contract.scheduling import SchedulingContract
from bendybus.testing.store_contract.sessions import SessionsContract
from bendybus.testing.store_contract.staging import StagingContract
from bendybus.testing.store_contract.subject import StoreMaker
from bendybus.testing.store_contract.switching import SwitchingContract
from bendybus.testing.store_contract.taking_numbers import TakingNumbersContract
from bendybus.testing.store_contract.transferring import TransferringContract
from bendybus.testing.store_contract.unread import UnreadContract

__all__ = ["StoreContract", "StoreMaker"]


class StoreContract(
    AccessContract,
    AccountingContract,
    AcquiringContract,
    BrowsingContract,
    CatalogContract,
    ComingBackContract,
    CommittingContract,
    CountingContract,
    DamageContract,
    DeferringContract,
    RemovingContract,
    DuplicatesContract,
    FiguresContract,
    GuardsContract,
    InHandContract,
    MovingContract,
    NumberingContract,
    ReservingPublishedContract,
    UnreadContract,
    PurgingContract,
    ReadersContract,
    RequeueingContract,
    ReservingContract,
    ReservingSessionsContract,
    TakingNumbersContract,
    ScanningContract,
    SchedulingContract,
    SessionsContract,
    StagingContract,
    SwitchingContract,
    TransferringContract,
):
    """Every promise. Inherit and supply `make_store`."""
