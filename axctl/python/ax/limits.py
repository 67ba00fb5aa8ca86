"""Keeps the frameworks of a job to its slices of cards, where their own variables can't: see ax-gpu(7).

    import torch
    import ax.limits
    ax.limits.apply()

Only frameworks that are imported already are told; nothing is imported here but Python's own modules."""
import os
import sys
import warnings

__all__ = ["apply", "pool_mb"]


def pool_mb(environ=None):
    """What a framework may take of each card, in MB (2**20 bytes); None outside of a job, for whole cards, and where the
    driver itself holds the job to its slices."""
    environ = os.environ if environ is None else environ
    if environ.get("AX_GPU_ENFORCE", "") in ("", "driver"):
        return None
    text = environ.get("AX_GPU_POOL_MB") or environ.get("AX_GPU_MEM_MB") or ""
    return int(text) if text.isdecimal() and int(text) > 0 else None


def apply():
    """Tells every framework that is imported. Returns what was done, a line each; what came too late is a warning as
    well."""
    limit = pool_mb()
    if limit is None:
        return []
    done = []
    for name, tell in (("torch", _torch), ("tensorflow", _tensorflow), ("cupy", _cupy), ("jax", _jax)):
        module = sys.modules.get(name)
        if module is None:
            continue
        try:
            line = tell(module, limit)
        except Exception as error:  # Of any kind: no program should end because it can't be limited.
            line = f"is not limited: {error}"
            warnings.warn(f"ax: {name} {line}", RuntimeWarning, stacklevel=2)
        done.append(f"{name}: {line}")
    return done


def _torch(torch, limit):
    cards = torch.cuda.device_count()
    for card in range(cards):
        total = torch.cuda.get_device_properties(card).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit * 2**20 / total), card)
    return f"{limit} MB on each of {cards} cards"


def _tensorflow(tensorflow, limit):
    config = tensorflow.config
    cards = config.list_physical_devices("GPU")
    for card in cards:
        # Refused once a card is in use: apply() says so.
        config.set_logical_device_configuration(card, [config.LogicalDeviceConfiguration(memory_limit=limit)])
    return f"{limit} MB on each of {len(cards)} cards"


def _cupy(cupy, limit):
    cards = cupy.cuda.runtime.getDeviceCount()
    for card in range(cards):
        with cupy.cuda.Device(card):
            cupy.get_default_memory_pool().set_limit(size=limit * 2**20)
    return f"{limit} MB on each of {cards} cards"


def _jax(_jax_module, limit):
    # It reads them when it first looks for cards; there is no call that changes it later.
    names = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
    for name in names:
        if os.environ.get(name):
            return f"{name}={os.environ[name]}"
    raise RuntimeError(f"too late for {limit} MB; set {names[0]} before it is imported")
