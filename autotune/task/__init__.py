"""Config spaces, templates, tasks and dispatch."""
