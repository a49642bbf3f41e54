"""Logs, databases and the replay of their best."""
