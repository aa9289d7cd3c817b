"""A transaction whose keys are all in one partition: one step.

Decide every action on the current items, and apply the decisions only if none is refused. A transaction names each
key once, so an action's decision cannot depend on another's.
"""

from ....log.commands import Transact
from ..outcomes import Outcome, Refused, Transacted
from ..state import PartitionState
from ..writes import Decision, apply
from .verdicts import judge, refusal, verdict


def transact_here(state: PartitionState, command: Transact, sequence_number: int) -> Outcome:
    """Decide all actions and apply them, or none."""
    decisions = [judge(state, action) for action in command.actions]
    if any(isinstance(decision, Refused) for decision in decisions):
        return refusal(map(verdict, decisions))

    applied = []
    for nth, (action, decision) in enumerate(zip(command.actions, decisions, strict=True)):
        assert isinstance(decision, Decision)
        table = state.tables[action.table]
        applied.append(apply(state, table, action, decision, sequence_number + nth, twice=True))
    return Transacted(applied)
