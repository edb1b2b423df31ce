"""``python -m mig_manager`` is the command line."""

from mig_manager.cli.main import program

program.main(prog_name="python -m mig_manager")
