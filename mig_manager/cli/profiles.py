"""``mig-manager profiles``: products, layouts, and what a GPU can be cut into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mig_manager.cli.group import CONTEXT
from mig_manager.cli.machines import Source, machine_options
from mig_manager.cli.output import look, output_option, print_document, print_lines

if TYPE_CHECKING:
    from mig_manager.geometry.cards import Product
    from mig_manager.geometry.profiles import ProfileTable


@click.command(context_settings=CONTEXT)
@machine_options()
@output_option()
def profiles(gpus: tuple[str, ...], state: str, simulated: str, form: str | None) -> None:
    """List products and layouts; or, with a machine or --gpu MODEL, what its GPUs can be cut into.

    SLICES are compute slices, UNITS memory units; COUNT is how many fit on an empty GPU, STARTS are the units at which
    one can begin; SM are multiprocessors, CE to OFA copy and media engines. A dash stands for a figure that nobody
    published.

    --profile of plan and apply takes any of the layouts.

    \b
    Examples:
      mig-manager profiles
      mig-manager profiles --gpu A30
      mig-manager profiles --sim box.sim -o json
    """
    if not (gpus or state or simulated):
        _everything(form)
        return
    view = Source(gpus, state, simulated).view()
    tables = list(dict.fromkeys((card.model, card.table) for card in view.cards if card.table is not None))
    without = dict.fromkeys(card.model for card in view.cards if card.table is None)
    if form:
        documents = [_table_document(model, table) for model, table in tables]
        print_document({"gpus": [*documents, *({"model": m, "profiles": [], "layouts": []} for m in without)]}, form)
        return
    from mig_manager.geometry.derived import derived_names
    from mig_manager.render.folding import NO_GPU
    from mig_manager.render.profiles import name_lines, profile_lines

    lines: list[str] = []
    for model, table in tables:
        lines += [f"{model}: {table.units} memory units", *profile_lines(table), ""]
        lines += [*name_lines(derived_names(table)), ""]
    lines += [f"{model}: no MIG" for model in without]
    lines += [] if view.cards else [NO_GPU]
    print_lines("\n".join(lines).rstrip().splitlines(), look())


def _everything(form: str | None) -> None:
    from mig_manager.api.catalog import shipped_profiles
    from mig_manager.geometry.cards import products

    shipped = shipped_profiles()
    if form:
        print_document(
            {
                "products": [_product_document(product) for product in products()],
                "layouts": [{"name": name, "description": profile.description} for name, profile in shipped.items()],
            },
            form,
        )
        return
    from mig_manager.render.profiles import layout_lines, product_lines

    descriptions = {name: profile.description for name, profile in shipped.items()}
    print_lines([*product_lines(products()), "", *layout_lines(descriptions)], look())


def _product_document(product: Product) -> dict[str, Any]:
    return {
        "model": product.model,
        "mig": product.mig_capable,
        "memoryGB": product.memory_gb,
        "architecture": product.architecture.name,
        "driver": product.driver or None,
        "units": product.table.units if product.table else None,
        "profiles": [str(p) for p in product.table] if product.table else [],
    }


def _table_document(model: str, table: ProfileTable) -> dict[str, Any]:
    from mig_manager.geometry.derived import derived_names

    return {
        "model": model,
        "units": table.units,
        "profiles": [
            {
                "name": str(p),
                "id": p.id,
                "slices": p.slice_count,
                "size": p.size,
                "starts": [placement.start for placement in p.placements],
                "count": p.instance_count,
                "memoryMiB": p.memory_mib,
                "multiprocessors": p.multiprocessors,
                "engines": {
                    "copy": p.engines.copy,
                    "decoder": p.engines.decoder,
                    "encoder": p.engines.encoder,
                    "jpeg": p.engines.jpeg,
                    "ofa": p.engines.ofa,
                },
                "compute": [f"{c.slice_count}c" for c in p.compute],
            }
            for p in table
        ],
        "layouts": derived_names(table),
    }
