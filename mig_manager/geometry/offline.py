"""Cards out of the card tables alone, to plan for machines that are not at hand.

Such a card is empty and has MIG enabled, so that a plan shows what is created and not what a mode change takes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mig_manager.geometry.cards import Product, find_product
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.state import Card

_MIB_PER_GB = 1024
_MOST_CARDS = 64
_COUNT = re.compile("[0-9]{1,9}")


def offline_cards(gpus: Sequence[str]) -> tuple[Card, ...]:
    """The cards of ``["A100-SXM4-80GB*2", "A30"]``, numbered in that order.

    Bus ids and UUIDs are made up, the same ones for the same order. Raises LayoutError: UnknownModel,
    AmbiguousModel, InvalidGPU (a count that is none), ProfileNotOnGPU (no published placements).
    """
    products = [product for text in gpus for product in _products(text)]
    if len(products) > _MOST_CARDS:
        raise LayoutError("InvalidGPU", f"{len(products)} GPUs in one machine", f"up to {_MOST_CARDS} can be planned")
    return tuple(_card(product, index, _reset_group(product, products)) for index, product in enumerate(products))


def nominal_memory_mib(product: Product) -> int:
    """The memory as NVML reports it, or what the product's name says where nobody published that."""
    if product.memory_mib is not None:
        return product.memory_mib
    return (product.memory_gb or 0) * _MIB_PER_GB


def _products(text: str) -> list[Product]:
    model, star, number = text.partition("*")
    if star and (_COUNT.fullmatch(number.strip()) is None or not int(number)):
        raise LayoutError("InvalidGPU", f"{text!r} does not say how many GPUs", "write it like A100-SXM4-80GB*8")
    product = find_product(model.strip())
    if product.mig_capable and product.table is None:
        raise LayoutError(
            "ProfileNotOnGPU",
            f"the profiles and placements of {product.model} are not published",
            "plan on a machine that has the card, or from what export wrote there",
        )
    return [product] * (min(int(number), _MOST_CARDS + 1) if star else 1)


def _reset_group(product: Product, products: Sequence[Product]) -> str:
    """The cards are taken to sit on one board; a card alone is reset alone."""
    together = [p for p in products if p.reset_together]
    return "nvswitch" if product in together and len(together) > 1 else ""


def _card(product: Product, index: int, reset_group: str) -> Card:
    mig = True if product.mig_capable else None
    return Card(
        index=index,
        uuid=f"GPU-00000000-0000-0000-0000-{index:012x}",
        model=product.model,
        name=f"NVIDIA {product.nvml_names[0]}",
        device_id=product.device_ids[0],
        bus_id=f"00000000:{index + 1:02X}:00.0",
        memory_mib=nominal_memory_mib(product),
        mig_current=mig,
        mig_pending=mig,
        table=product.table,
        minor=index,
        mode_change=product.architecture.mode_change,
        mode_survives_reboot=product.architecture.mode_survives_reboot,
        reset_group=reset_group,
    )
