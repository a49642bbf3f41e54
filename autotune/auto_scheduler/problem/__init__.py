"""What is searched: the graph with its keys, the device, and the values of inputs."""
