"""New producer ids, which the core cannot make up: it asks for one, and goes on when it comes.

What needs it is looked at again then, from the start. An id that is not needed any more is lost, which costs
nothing.
"""

from coordinator.machine.outcome import Context, Work, WorkDone
from coordinator.machine.turn import Turn
from coordinator.transactions.refusal import refuse
from coordinator.transactions.refusal_facts import NoProducerId
from coordinator.transactions.requests import PRODUCER_ID, AbortTimedOut, Again, Resumable
from coordinator.transactions.transactions import Transactions
from protocol.errors import ErrorCode


def draw_producer_id(transactions: Transactions, request: Resumable, context: Context, turn: Turn) -> None:
    """Ask for a producer id; the request is answered after that."""
    if not isinstance(request, AbortTimedOut):
        transactions.parked[context.waiter] = request, context
    turn.begin(Work(PRODUCER_ID, Again(request, context)))


def drawn_producer_id(transactions: Transactions, done: WorkDone, turn: Turn) -> tuple[Again, int] | None:
    """What came of that: what to do again, and with which id. None where there is no id: the asker is told
    COORDINATOR_NOT_AVAILABLE, and comes again."""
    again = done.work.argument
    assert isinstance(again, Again), done
    request, context = again
    transactions.parked.pop(context.waiter, None)
    if isinstance(request, AbortTimedOut):
        transaction = transactions.find(request.transactional_id)
        if transaction is not None:
            transaction.draws_producer_id = False
    if done.error is None:
        assert isinstance(done.result, int), done
        return again, done.result
    if not isinstance(request, AbortTimedOut):
        transaction = transactions.find(request.transactional_id or "")
        detail = NoProducerId(done.error)
        refuse(transaction, request, context, ErrorCode.COORDINATOR_NOT_AVAILABLE, turn, detail)
    return None
