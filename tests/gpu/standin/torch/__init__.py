"""Plays PyTorch for load.py, on the card of a script of tests/fake-nvml: README.md beside this folder."""

import ctypes
import errno
import fcntl
import os
import re
import time

__version__ = "0.0+standin"
uint8 = "uint8"
SCRIPT = os.environ["STANDIN_SCRIPT"]
OVERHEAD = 300


def _change(change):
    """The script's lines become what `change` makes of them, for all to see at once."""
    with open(SCRIPT + ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(SCRIPT) as file:
            lines = file.read().splitlines()
        lines = change(lines)
        with open(SCRIPT + ".new", "w") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(SCRIPT + ".new", SCRIPT)


def _card():
    with open(SCRIPT) as file:
        line = next(line for line in file if line.startswith("card "))
    fields = dict(word.split("=", 1) for word in line.split()[2:])
    return line.split()[1], int(fields["memory"]), int(fields["minor"])


def _opens():
    """Whether the device's file can be opened: no driver is behind it, so one that can says ENXIO."""
    try:
        os.close(os.open(f"/dev/nvidia{_card()[2]}", os.O_RDWR))
    except OSError as error:
        return error.errno in (errno.ENXIO, errno.ENOENT)
    return True


class _Properties:
    total_memory = _card()[1] << 20


class cuda:
    class OutOfMemoryError(RuntimeError):
        pass

    share = 1.0
    has = 0

    @staticmethod
    def device_count():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        named = visible is None or visible in ("0", _card()[0])
        return int(named and _opens())

    @staticmethod
    def get_device_properties(_card):
        return _Properties

    @staticmethod
    def set_per_process_memory_fraction(share, _card):
        cuda.share = share

    @staticmethod
    def mem_get_info():
        return 0, cuda.limit() << 20

    @staticmethod
    def limit():
        """What this process may have: by the framework, by MPS where there is a server."""
        uuid, total, _ = _card()
        limit = int(total * cuda.share)
        served = os.path.exists(os.path.join(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/none"), "control"))
        pinned = re.search(rf"{uuid}=(\d+)M", os.environ.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", ""))
        return min(limit, int(pinned[1])) if served and pinned else limit

    @staticmethod
    def synchronize():
        time.sleep(0.05)

    @staticmethod
    def empty_cache():
        pass


def _take(mib):
    if not cuda.device_count():
        raise RuntimeError("No CUDA GPUs are available")
    if cuda.has + mib > cuda.limit():
        raise cuda.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {mib} MiB")
    uuid, _, _ = _card()
    cuda.has += mib
    mine = f"process {os.getpid()} {uuid} "

    def change(lines):
        told = str(cuda.has + OVERHEAD)
        if os.environ.get("STANDIN_PIDS"):
            with open(SCRIPT + ".hidden", "a") as file:
                print(os.getpid(), told, file=file)
            if os.environ["STANDIN_PIDS"] == "hidden":
                return lines
            told = "-"
        return [line for line in lines if not line.startswith(mine)] + [mine + told]

    _change(change)


class _Memory:
    def cuda(self):
        _take(0)
        return self

    def __matmul__(self, _other):
        _change(lambda lines: [re.sub(r" load=\d+", " load=90", line) for line in lines])
        return self


def zeros(count, dtype=None, device="cpu"):
    if device == "cuda":
        _take(count >> 20)
    return _Memory()


def randn(*_shape, device):
    return zeros(0, device=device)


class _Driver:
    """A kernel that writes where nothing is."""

    def __getattr__(self, name):
        return lambda *arguments: 0

    def cuCtxSynchronize(self):
        _change(lambda lines: lines + [f"xid {_card()[0]} 31"])
        return 700


_load = ctypes.CDLL


class _Library(_load):
    def __new__(cls, name, *words, **more):
        return _Driver() if name == "libcuda.so.1" else _load(name, *words, **more)


ctypes.CDLL = _Library
