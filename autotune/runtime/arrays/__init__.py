"""Arrays on devices, and how what a caller passes becomes what a kernel takes."""
