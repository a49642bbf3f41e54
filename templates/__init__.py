"""The ready-made template library; importing it registers its tasks."""
