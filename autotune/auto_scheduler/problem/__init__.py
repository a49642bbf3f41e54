"""The search problem: the graph with its keys, the device, and the values of inputs."""
