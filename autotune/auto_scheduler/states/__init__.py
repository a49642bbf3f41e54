"""Loop states: how the stages of a graph are carried out, as loops, as text and on a schedule."""
