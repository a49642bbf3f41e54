"""How long to wait before something that lacked a resource, or was killed, is tried again."""

# Seconds before each further attempt. Together they outlast a passing shortage of memory,
# processes or disk, and whoever kills at random.
PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
ATTEMPTS = len(PAUSES_S) + 1
