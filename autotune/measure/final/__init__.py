"""The end of a run: the final race, the choice between ties, and records measured again."""
