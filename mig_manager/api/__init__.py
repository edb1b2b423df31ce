"""MIGConfig and MIGNode as values, validated against the schemas in crds/."""
