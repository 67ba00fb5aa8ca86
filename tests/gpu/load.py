"""What the jobs of check.sh do with a card. Each word is a step; steps are done in order.

see             prints how many cards PyTorch sees, if it is there, and the variables
total           prints how much memory the card seems to have, MiB
limit           applies the job's slice with ax.limits
take GB         allocates and touches so much
free            gives all of it back
busy SECONDS    keeps the card busy
hold SECONDS    waits
until FILE      waits until the file is there
open PATH       opens a device file and prints the error's name
fault           makes the card fault: reads what is not there, in a kernel
die HOW         ends badly: kill, segv, abort, exit
say WORD        prints it
"""

import ctypes
import errno
import os
import signal
import sys
import time


def see():
    try:
        import torch

        print("cards", torch.cuda.device_count())
    except ImportError:
        print("cards unknown: no PyTorch")
    for name in sorted(os.environ):
        if name.startswith(("AX_GPU", "CUDA_", "NVIDIA_VISIBLE", "PYTORCH_", "XLA_", "CUPY_", "ROCR_", "ZE_")):
            print(f"{name}=[{os.environ[name]}]")


def limit():
    import torch  # noqa: F401  the helper limits what is imported
    import ax.limits

    print("limited", ax.limits.apply())


HELD = []


def total():
    import torch

    print("total", torch.cuda.mem_get_info()[1] >> 20)


def take(amount):
    import torch

    try:
        HELD.append(torch.zeros(int(float(amount) * 1e9), dtype=torch.uint8, device="cuda"))
        torch.cuda.synchronize()
        print("took", amount)
    except RuntimeError as error:
        print("out of memory" if "out of memory" in str(error).lower() else error)
        print("OUT", str(error).splitlines()[0])


def free():
    import torch

    HELD.clear()
    torch.cuda.empty_cache()


def busy(seconds):
    import torch

    a = torch.randn(4096, 4096, device="cuda")
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        for _ in range(20):
            a @ a
        torch.cuda.synchronize()
    print("was busy")


def until(path):
    while not os.path.exists(path):
        time.sleep(0.05)


def open_(path):
    try:
        os.close(os.open(path, os.O_RDWR))
        print("opened", path)
    except OSError as error:
        print("open", path, errno.errorcode[error.errno])


def fault():
    """Writes far outside of anything, by the driver's own interface: PyTorch's indexing checks its bounds."""
    import torch

    torch.zeros(1, device="cuda")
    code = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry wild() { .reg .b64 %a; mov.b64 %a, 0x10; st.global.b32 [%a], 1; ret; }
"""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print("no fault:", error)
        return
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    print("load", cuda.cuModuleLoadData(ctypes.byref(module), code + b"\0"))
    print("find", cuda.cuModuleGetFunction(ctypes.byref(function), module, b"wild"))
    print("launch", cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None))
    print("fault", cuda.cuCtxSynchronize())


def die(how):
    sys.stdout.flush()
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "segv":
        ctypes.string_at(8)
    elif how == "abort":
        os.abort()
    else:
        os._exit(9)


STEPS = {
    "see": see, "limit": limit, "total": total, "take": take, "free": free, "busy": busy, "hold": lambda s: time.sleep(float(s)),
    "until": until, "open": open_, "fault": fault, "die": die, "say": print,
}

if __name__ == "__main__":
    words = sys.argv[1:]
    while words:
        step = STEPS[words.pop(0)]
        arguments = [words.pop(0) for _ in range(step.__code__.co_argcount if hasattr(step, "__code__") else 1)]
        step(*arguments)
        sys.stdout.flush()
