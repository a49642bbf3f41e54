"""The end of a run: the final race, the choice between candidates that tie, and records measured again."""
