"""The tuning loop: what is proposed, measured, kept and reported, and when it ends."""
