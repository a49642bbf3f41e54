"""The graph of computes: its operations, how they read each other, what they count."""
