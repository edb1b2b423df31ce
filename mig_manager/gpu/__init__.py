"""The Gpus port, its NVML implementation, and applying a plan through it."""
