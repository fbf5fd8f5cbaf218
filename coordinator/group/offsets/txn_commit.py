"""TxnOffsetCommit: offsets that count once the producer's transaction is committed.

They are a batch of that transaction; `end_transaction.py` has what becomes of them. That the producer may write to
the transaction at all was found out before a group is asked. It is no sign of life of the group's member: it comes
from a producer.

Source: Kafka's OffsetMetadataManager.commitTransactionalOffset.
"""

from typing import Final

from coordinator.group.events import OffsetsPending
from coordinator.group.group import ACCEPTED
from coordinator.group.groups import Groups
from coordinator.group.offsets.commit_form import IN_TRANSACTION
from coordinator.group.offsets.mixed_commits import check_transactional
from coordinator.group.offsets.new_offsets import (
    is_refused,
    missing_group_verdict,
    new_offsets,
    simple_group,
    tell_too_long,
)
from coordinator.group.refusal import check_group_id, refuse
from coordinator.machine.outcome import Context, InTransaction
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

GROUP_ID_NOT_FOUND_VERSION: Final = 6


def txn_offset_commit(groups: Groups, request: TxnOffsetCommitRequest, context: Context, turn: Turn) -> None:
    """Answer a TxnOffsetCommit with a TxnOffsetCommitResponse: an error that concerns the group stands on each of
    its partitions. Topics come by name, with their id where it is known, and are known to exist."""
    error = check_group_id(request)
    if error is not ErrorCode.NONE:
        refuse(None, request, context, error, turn)
        return
    group = groups.find(request.group_id)
    if group is None:
        verdict = missing_group_verdict(request, context, GROUP_ID_NOT_FOUND_VERSION)
    else:
        verdict = group.commit_verdict(request, context.api_version)
    if verdict is not ACCEPTED and is_refused(groups, group, request, context, verdict, turn):
        return
    new = new_offsets(groups, group, request, context, IN_TRANSACTION, None, turn)
    if new is None:
        return
    records, response, too_long = new
    if group is None:
        group = simple_group(groups, request.group_id, turn)
    if records:
        turn.in_transaction = InTransaction(request.producer_id, request.producer_epoch)
        check_transactional(groups, request, records, turn)
        for record in records:
            turn.write(record)
        turn.tell(OffsetsPending(group.group_id, request.member_id, request.producer_id, len(records)))
    if too_long:
        tell_too_long(groups, group, request, context, too_long, turn)
    turn.reply(context.waiter, response)
