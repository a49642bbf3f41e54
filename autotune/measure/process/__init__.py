"""Worker processes, and what follows when one of them dies."""
