"""The only code that changes a cluster: `apply_plan`; and what became of runs that were cut off."""

from toolkit.operate.apply import apply_plan, check_plan, in_words
from toolkit.operate.approval import Approval
from toolkit.operate.settle import CutOff, Settled, settle

__all__ = ["Approval", "CutOff", "Settled", "apply_plan", "check_plan", "in_words", "settle"]
