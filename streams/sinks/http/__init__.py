"""Calls over HTTP to where others say: which addresses may be called, and one exchange that is led nowhere else."""
