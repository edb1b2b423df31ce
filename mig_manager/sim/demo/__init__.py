"""The demo: a real control plane, four simulated nodes, the real agents and controller, and a story that is checked."""
