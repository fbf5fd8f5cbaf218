"""Six stock clients at every listener: accepted and refused logins, and the permissions of each client."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.interop.build import CannotBuild
from tests.interop.matrix.cells import Cell, topic_of
from tests.interop.matrix.column import CLIENTS, Client, Column, visit
from tests.interop.matrix.words import REFUSALS, WAYS_ON, Way
from tests.interop.requirement import lacking
from tests.interop.secured_broker import KAFKA, SecuredBroker, secured_broker
from tests.shared_fixtures import shared

pytestmark = pytest.mark.interop

LET_IN = ("login", "produce", "consume", "commit")


@shared(SecuredBroker.is_alive, scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """One broker for all columns, each with topics of its own."""
    topics = [topic_of(client.name, stays=stays) for client in CLIENTS for stays in (False, True)]
    with secured_broker(str(tmp_path_factory.mktemp("secured")), *topics) as broker:
        yield broker


@pytest.fixture(scope="module")
def columns() -> dict[str, Column]:
    """Results by client: a program starts with the first requested cell."""
    return {}


def selected_cells(items: Iterable[pytest.Item], client: Client) -> list[Cell]:
    """Return the cells of the client that the selected tests name, or all of them if the tests name none."""
    selected = {item.nodeid.rpartition("::")[2] for item in items if item.path == Path(__file__)}
    named = [cell for cell in client.cells if any(f"[{client}-{cell}]" in test for test in selected)]
    return named or list(client.cells)


@pytest.fixture
def cells(client: Client, request: pytest.FixtureRequest) -> list[Cell]:
    """The cells of the client in this run."""
    return selected_cells(request.session.items, client)


@pytest.fixture
def column(client: Client, cells: list[Cell], secured: SecuredBroker, columns: dict[str, Column]) -> Column:
    """The results of the cells of the client."""
    if client.name not in columns:
        try:
            columns[client.name] = visit(client, cells, secured)
        except CannotBuild as reason:
            lacking(f"{client}: {reason}")
    return columns[client.name]


def of(*visits: str, refused: bool = False) -> pytest.MarkDecorator:
    """Clients with those of their cells that are such visits."""
    return pytest.mark.parametrize(
        ("client", "cell"),
        [
            pytest.param(client, cell, id=f"{client}-{cell}")
            for client in CLIENTS
            for cell in client.cells
            if cell.visit in visits and bool(cell.refusal) is refused
        ],
    )


@of("work", "login")
def test_a_correct_login_succeeds(column: Column, cell: Cell) -> None:
    answer = column.of(cell)
    steps = LET_IN if cell.visit == "work" else LET_IN[:1]
    assert {step: answer.get(step) for step in steps} == dict.fromkeys(steps, ""), column.report


@of("work")
def test_acls_restrict_an_authenticated_client(column: Column, client: Client, cell: Cell) -> None:
    answer, words = column.of(cell), REFUSALS[client.name]
    assert re.search(words["topic"], answer["refused_topic"]), answer
    assert re.search(words["group"], answer["refused_group"]), answer


@of("login", refused=True)
def test_refused_login_names_the_cause(column: Column, client: Client, cell: Cell) -> None:
    answer = column.of(cell)
    assert re.search(REFUSALS[client.name][cell.refusal], answer["login"]), answer


@of("stay")
def test_a_session_that_ends_loses_nothing(column: Column, cell: Cell) -> None:
    answer = column.of(cell)
    assert answer["errors"] == [], answer
    assert (answer["commit"], answer["acknowledged"], answer["read"]) == ("", answer["sent"], answer["sent"])


NEEDS_COUNTS = pytest.mark.skipif(KAFKA, reason="counts are read where groupd has them")


@NEEDS_COUNTS
@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_the_broker_counts_refused_logins(column: Column, cells: list[Cell]) -> None:
    wrong = [cell for cell in cells if cell.refusal in ("credentials", "mechanism")]
    assert column.counts["groupd_failed_authentications"] >= len(wrong)


@NEEDS_COUNTS
@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_capable_clients_reauthenticate(column: Column, client: Client) -> None:
    again = column.counts["groupd_successful_reauthentications"]
    killed = column.counts["groupd_expired_connections_killed"]
    if WAYS_ON[client.name] is Way.AUTHENTICATES_ANEW:
        assert again > 0
    else:
        assert (again, killed > 0) == (0, True)
