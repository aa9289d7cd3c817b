"""The past of a partition: every version of its items, and states at cuts.

log ──► follower: folds, keeps each version ──► state at a cut ──► fold/reads.py ──► page
"""
