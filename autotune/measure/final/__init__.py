"""The end of a run: the final race, the choice among equals, records measured again."""
