"""The steps of a pass, one module each; ``mig_manager.agent.reconciler`` has their order."""
