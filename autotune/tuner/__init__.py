"""The tuning loop and its search strategies."""
