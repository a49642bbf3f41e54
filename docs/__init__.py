"""The book, and what runs and records its pages."""
