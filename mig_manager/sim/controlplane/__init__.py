"""A real Kubernetes control plane on this machine, for the demo and the tests: found or built, started, removed."""
